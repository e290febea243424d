package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"quintet.dev/quintet/cluster"
)

func (a *app) token() *cobra.Command {
	parent := &cobra.Command{
		Use:   "token",
		Short: "Create, list and delete the bootstrap tokens by which nodes join",
		Long: `Create, list and delete bootstrap tokens, by which nodes that start elsewhere join the cluster. They are
Secrets of type bootstrap.kubernetes.io/token in kube-system, as kubeadm makes them. The first one makes the ConfigMap
kube-public/cluster-info, too, which anyone may then read.`,
		Example: `  quintet token create --print-join-command
  quintet token list
  quintet token delete abcdef`,
	}
	parent.AddCommand(a.tokenCreate(), a.tokenList(), a.tokenDelete())
	return parent
}

// tokenFlags describe a new token.
type tokenFlags struct {
	ttl            time.Duration
	usages, groups []string
	description    string
}

func (f *tokenFlags) add(fs *pflag.FlagSet) {
	fs.DurationVar(&f.ttl, "ttl", cluster.DefaultTokenTTL, "how long the token is valid; 0 is for ever")
	fs.StringSliceVar(&f.usages, "usages", []string{"signing", "authentication"}, "what the token may be used for")
	fs.StringSliceVar(&f.groups, "groups", []string{cluster.NodeTokenGroup},
		"groups that it authenticates as: system:bootstrappers:NAME")
	fs.StringVar(&f.description, "description", "", "what the token is for, for people")
}

func (f *tokenFlags) options(token string, given func(flag string) bool) (cluster.TokenOptions, error) {
	o := cluster.TokenOptions{Token: token, TTL: f.ttl, Usages: f.usages, Description: f.description}
	if f.ttl < 0 {
		return o, fmt.Errorf("--ttl %v: use 0 for a token that is valid for ever", f.ttl)
	}
	if f.ttl == 0 {
		o.TTL = cluster.NoExpiry
	}
	if given("groups") {
		o.Groups = f.groups
	}
	return o, nil
}

func (a *app) tokenCreate() *cobra.Command {
	var f tokenFlags
	var output string
	var print bool
	cmd := &cobra.Command{
		Use:   "create [TOKEN]",
		Short: "Create a token, and print it",
		Example: `  quintet token create
  quintet token create --ttl 2h --description "for the laptop"
  quintet token create --print-join-command
  quintet token create abcdef.0123456789abcdef --ttl 0 --output json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			options, err := f.options(strings.Join(args, ""), cmd.Flags().Changed)
			if err != nil {
				return err
			}
			if print {
				return a.printJoinCommand(cmd, cluster.JoinOptions{NewToken: options}, output)
			}
			c, err := a.api(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			token, err := c.CreateToken(cmd.Context(), options)
			if err != nil {
				return err
			}
			return a.print(output, token, func() error {
				_, err := fmt.Fprintln(a.out, token.Token)
				return err
			})
		},
	}
	f.add(cmd.Flags())
	cmd.Flags().BoolVar(&print, "print-join-command", false, "print the command line that starts a node with the token")
	outputFlag(cmd, &output)
	return cmd
}

func (a *app) tokenList() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List tokens",
		Example: `  quintet token list
  quintet token list --output json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.api(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			tokens, err := c.Tokens(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(output, tokens, func() error { return a.tokenTable(tokens, time.Now()) })
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func (a *app) tokenTable(tokens []cluster.Token, now time.Time) error {
	table := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "TOKEN\tTTL\tEXPIRES\tUSAGES\tDESCRIPTION\tEXTRA GROUPS")
	for _, t := range tokens {
		ttl, expires := "<forever>", "<never>"
		if !t.Expires.IsZero() {
			ttl, expires = "<expired>", t.Expires.Format(time.RFC3339)
			if left := t.Expires.Sub(now); left > 0 {
				ttl = left.Round(time.Second).String()
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", t.Token, ttl, expires, strings.Join(t.Usages, ","),
			cmp.Or(t.Description, "<none>"), cmp.Or(strings.Join(t.Groups, ","), "<none>"))
	}
	return table.Flush()
}

func (a *app) tokenDelete() *cobra.Command {
	return &cobra.Command{
		Use:   "delete TOKEN|ID...",
		Short: "Delete tokens; nodes that joined by them stay",
		Example: `  quintet token delete abcdef
  quintet token delete abcdef.0123456789abcdef`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, tokens []string) error {
			c, err := a.api(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			for _, token := range tokens {
				if err := c.DeleteToken(cmd.Context(), token); err != nil {
					return err
				}
				id, _, _ := strings.Cut(token, ".")
				fmt.Fprintf(a.err, "Token %s is gone.\n", id)
			}
			return nil
		},
	}
}

// api takes hold of the chosen cluster, of containers or in another process, for what only the API is needed.
func (a *app) api(ctx context.Context) (*cluster.Cluster, error) {
	chosen, err := a.choose(ctx)
	if err != nil {
		return nil, err
	}
	if chosen.inProcess == nil {
		return cluster.Open(ctx, chosen.name)
	}
	content, err := os.ReadFile(a.state.kubeconfig(chosen.name))
	if err != nil {
		return nil, err
	}
	return cluster.Connect(chosen.name, content)
}

// joinFlags describe a node that joins.
type joinFlags struct {
	tokenFlags
	token, nodeName string
	labels, taints  []string
	elsewhere       bool
}

func (a *app) joinCommand() *cobra.Command {
	var f joinFlags
	var output string
	cmd := &cobra.Command{
		Use:   "join-command",
		Short: "Print the docker run line that starts a node which joins the cluster",
		Long: `Print the docker run line that starts a node which joins the cluster by a bootstrap token. The node checks
that it joins this cluster, requests its certificates, and gets no key of the cluster. Its name, labels and taints can
be changed in the line, too: NODE_NAME, NODE_LABELS and NODE_TAINTS.

The line is for this Docker engine, where the node is on the cluster's network and is removed with the cluster. With
--elsewhere it is for another machine, which has the node's image and reaches the API at its published port; pods there
reach other pods only if the networks are routed.`,
		Example: `  eval "$(quintet join-command)"
  quintet join-command --node-name worker-a --label zone=a --taint only=infra:NoSchedule
  quintet join-command --token abcdef.0123456789abcdef --output json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := f.options(cmd.Flags().Changed)
			if err != nil {
				return err
			}
			return a.printJoinCommand(cmd, options, output)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.token, "token", "", "existing token; by default, a new one")
	f.add(fs)
	fs.StringVar(&f.nodeName, "node-name", "", "name of the node; by default Docker chooses")
	fs.StringArrayVar(&f.labels, "label", nil, "KEY=VALUE: label of the node; may be repeated")
	fs.StringArrayVar(&f.taints, "taint", nil, "KEY[=VALUE]:EFFECT: taint of the node; may be repeated")
	fs.BoolVar(&f.elsewhere, "elsewhere", false, "the line is for another machine")
	outputFlag(cmd, &output)
	return cmd
}

func (f *joinFlags) options(given func(flag string) bool) (cluster.JoinOptions, error) {
	o := cluster.JoinOptions{Token: f.token, NodeName: f.nodeName, Elsewhere: f.elsewhere}
	for _, flag := range []string{"ttl", "usages", "groups", "description"} {
		if f.token != "" && given(flag) {
			return o, fmt.Errorf("--%s is about a new token, and --token names one that exists", flag)
		}
	}
	var err error
	if o.NewToken, err = f.tokenFlags.options("", given); err != nil {
		return o, err
	}
	if o.Labels, err = parseLabels(f.labels); err != nil {
		return o, err
	}
	o.Taints, err = parseTaints(f.taints)
	return o, err
}

func (a *app) printJoinCommand(cmd *cobra.Command, o cluster.JoinOptions, output string) error {
	c, err := a.openFor(cmd.Context(), "join-command")
	if err != nil {
		return err
	}
	defer c.Close()
	made, err := c.JoinCommand(cmd.Context(), o)
	if err != nil {
		return err
	}
	return a.print(output, made, func() error {
		_, err := fmt.Fprintln(a.out, made)
		return err
	})
}
