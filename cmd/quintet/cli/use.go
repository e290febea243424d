package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"sigs.k8s.io/yaml"

	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/internal/kubeconfig"
)

func (a *app) kubeconfig() *cobra.Command {
	var path, merge bool
	var output string
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print an administrator's kubeconfig, or the path of its file, or merge it",
		Example: `  quintet kubeconfig > admin.conf
  quintet kubeconfig -o json
  quintet kubeconfig --merge              # the context quintet-NAME, until quintet down
  export KUBECONFIG=$(quintet kubeconfig --path)`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && (merge || path) {
				return errors.New("--output is the form of the kubeconfig, which --path and --merge don't print")
			}
			c, err := a.choose(cmd.Context())
			if err != nil {
				return err
			}
			file, err := a.kubeconfigOf(cmd.Context(), c)
			if err != nil {
				return err
			}
			if merge {
				file, err = a.mergeKubeconfig(cmd.Context(), c, file)
				if err != nil || !path {
					return err
				}
			}
			if path {
				_, err = fmt.Fprintln(a.out, file)
				return err
			}
			return a.printKubeconfig(file, output)
		},
	}
	outputFlag(cmd, &output)
	cmd.Flags().BoolVar(&merge, "merge", false,
		"add the context quintet-NAME to $KUBECONFIG or ~/.kube/config, and make it the current one, until the cluster is "+
			"down")
	cmd.Flags().BoolVar(&path, "path", false, "print the path of the file instead of its content; "+
		"with --merge, of the file that has the context")
	return cmd
}

// printKubeconfig prints a kubeconfig file, which is YAML unless output says else.
func (a *app) printKubeconfig(file, output string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var value map[string]any
	if err := yaml.Unmarshal(content, &value); err != nil {
		return err
	}
	return a.print(output, value, func() error {
		_, err := a.out.Write(content)
		return err
	})
}

// mergeKubeconfig merges a cluster's kubeconfig, which is in file, remembers where to take it out again, and returns
// where it is.
func (a *app) mergeKubeconfig(ctx context.Context, c chosen, file string) (into string, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	into = kubeconfig.DefaultFile()
	e := a.state.entry(c.name)
	if e.Merged != "" && e.Merged != into {
		if err := cluster.UnmergeKubeconfig(ctx, e.Merged, c.name); err != nil {
			return "", err
		}
	}
	e.Name, e.Merged = c.name, into
	if err := a.state.save(e, nil); err != nil {
		return "", err
	}
	if err := kubeconfig.Merge(ctx, into, cluster.ContextName(c.name), content); err != nil {
		return "", err
	}
	fmt.Fprintf(a.err, "%s has the context %s, which is the current one.\n", into, cluster.ContextName(c.name))
	return into, nil
}

func (a *app) logs() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs MEMBER|COMPONENT",
		Short: "Print what a member wrote; a node's log is its kubelet's",
		Example: `  quintet logs kube-scheduler
  quintet logs node-1 --follow`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			switch group := c.Component(cluster.Component(args[0])); {
			case len(group.Members) > 0 && !follow:
				return group.Logs(cmd.Context(), a.out)
			case len(group.Members) > 1:
				return fmt.Errorf("--follow: cluster %s has several members of %s; name one, e.g. %s", c.Name(),
					args[0], group.Members[0].Name())
			case len(group.Members) == 1:
				return group.Members[0].Logs(cmd.Context(), true, a.out)
			}
			return c.Member(args[0]).Logs(cmd.Context(), follow, a.out)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing what is written")
	return cmd
}

func (a *app) kubectl() *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl ...",
		Short: "Run kubectl on the cluster; everything after the word is kubectl's",
		Example: `  quintet kubectl get pods -o wide
  quintet --name b kubectl apply -f deployment.yaml
  quintet kubectl --kubeconfig other.conf get nodes   # any other cluster`,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			args = a.takeName(args)
			if tellsCluster(args) {
				return a.runKubectl(cmd, "", args)
			}
			if file := os.Getenv(disturbedKubeconfig); file != "" && a.name == "" {
				return a.runKubectl(cmd, file, args)
			}
			c, err := a.choose(cmd.Context())
			if err != nil {
				return err
			}
			file, err := a.kubeconfigOf(cmd.Context(), c)
			if err != nil {
				return err
			}
			return a.runKubectl(cmd, file, args)
		},
	}
}

// takeName takes a --name that stands before kubectl's own words; kubectl's commands have flags of that name too.
func (a *app) takeName(args []string) []string {
	if len(args) > 1 && args[0] == "--name" {
		a.name = args[1]
		return args[2:]
	}
	if len(args) > 0 {
		if name, ok := strings.CutPrefix(args[0], "--name="); ok {
			a.name = name
			return args[1:]
		}
	}
	return args
}

// tellsCluster reports whether kubectl's own words say which cluster they are for, or need none.
func tellsCluster(args []string) bool {
	for _, arg := range args {
		flag, _, _ := strings.Cut(arg, "=")
		switch flag {
		case "--kubeconfig", "--server", "-s", "--help", "-h":
			return true
		case "--": // what follows is for a program in a container
			return false
		}
	}
	return len(args) == 0 || args[0] == "help"
}

// runKubectl runs kubectl on the cluster of a kubeconfig file; "" leaves the choice to kubectl.
func (a *app) runKubectl(cmd *cobra.Command, kubeconfig string, args []string) error {
	streams := genericiooptions.IOStreams{In: a.in, Out: a.out, ErrOut: a.err}
	flags := genericclioptions.NewConfigFlags(true).WithDiscoveryBurst(300).WithDiscoveryQPS(50).WithWarningPrinter(
		streams)
	flags.KubeConfig = &kubeconfig
	inner := kubectl.NewKubectlCommand(kubectl.KubectlOptions{
		Arguments: append([]string{"kubectl"}, args...), ConfigFlags: flags, IOStreams: streams,
	})
	inner.SetArgs(args)
	// Signals are kubectl's: most of its commands know no context, and an interrupt has to end them all the same.
	ctx := context.WithoutCancel(cmd.Context())
	if a.release != nil {
		a.release()
	}
	inner.SetContext(ctx)
	if err := cli.RunNoErrOutput(inner); err != nil { // with the flags of its log
		fmt.Fprintln(a.err, "error:", err)
		return exitError(1)
	}
	return nil
}
