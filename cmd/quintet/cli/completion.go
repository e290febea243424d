package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"quintet.dev/quintet/cluster"
)

// completer returns what may stand at a place of a command line.
type completer = cobra.CompletionFunc

// fixed completes with words that are always the same.
func fixed(words ...string) completer {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

// addCompletion has the shell complete what this program knows: names of clusters, of their members, of components.
// `quintet completion SHELL` prints the script that asks for it.
func (a *app) addCompletion(root *cobra.Command) {
	flags := map[string]map[string]completer{
		"up": {
			"image": components("="), "args": components("="), "without": components(""),
			"with": fixed(string(cluster.MetricsServer), string(cluster.CSIDriver), string(cluster.DeviceDriver),
				string(cluster.Registry)),
			"store": fixed(string(cluster.Memory), string(cluster.EmbeddedEtcd)), "ip-family": families(),
		},
	}
	args := map[string]completer{"logs": a.completeMembers, "remove": a.completeNodes}
	for _, v := range lifecycle() {
		args[v.name] = a.completeMembers
	}
	for _, name := range []string{"delay", "lose", "cut", "fill-disk", "shift-clock"} {
		args[name] = a.completeMembers
	}
	mustComplete(root, "name", a.completeClusters)
	visit(root, func(cmd *cobra.Command) {
		if complete, ok := args[cmd.Name()]; ok && cmd.ValidArgsFunction == nil {
			cmd.ValidArgsFunction = complete
		}
		for name, complete := range flags[cmd.Name()] {
			mustComplete(cmd, name, complete)
		}
		if cmd.Flags().Lookup("output") != nil {
			mustComplete(cmd, "output", fixed("json", "yaml"))
		}
	})
}

// visit calls f with a command and all below it.
func visit(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, child := range cmd.Commands() {
		visit(child, f)
	}
}

// mustComplete panics for a flag that does not exist: a mistake of this package.
func mustComplete(cmd *cobra.Command, flag string, complete completer) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err)
	}
}

// components completes the names of components, each with a suffix that further text follows.
func components(suffix string) completer {
	directive := cobra.ShellCompDirectiveNoFileComp
	if suffix != "" {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	var words []string
	for _, c := range cluster.Components() {
		words = append(words, string(c)+suffix)
	}
	return cobra.FixedCompletions(words, directive)
}

func families() completer {
	var words []string
	for _, f := range cluster.IPFamilies() {
		words = append(words, string(f))
	}
	return fixed(words...)
}

// completeClusters completes the names of clusters that there are.
func (a *app) completeClusters(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	all, err := a.clusters(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var words []string
	for _, c := range all {
		words = append(words, c.name)
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// completeMembers completes members and components of the chosen cluster.
func (a *app) completeMembers(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.completeInfos(cmd, given, func(info cluster.Info) []string {
		return []string{info.Member, string(info.Component)}
	})
}

// completeNodes completes the nodes of the chosen cluster.
func (a *app) completeNodes(cmd *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.completeInfos(cmd, given, func(info cluster.Info) []string {
		if info.Component != cluster.Node {
			return nil
		}
		return []string{info.Member}
	})
}

func (a *app) completeInfos(cmd *cobra.Command, given []string,
	words func(cluster.Info) []string) ([]string, cobra.ShellCompDirective) {
	c, err := a.choose(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	infos, err := cluster.List(cmd.Context(), c.name)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var all []string
	for _, info := range infos {
		all = append(all, words(info)...)
	}
	slices.Sort(all)
	all = slices.DeleteFunc(slices.Compact(all), func(word string) bool { return slices.Contains(given, word) })
	return all, cobra.ShellCompDirectiveNoFileComp
}
