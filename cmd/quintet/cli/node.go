package cli

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/cluster"
)

func (a *app) node() *cobra.Command {
	parent := &cobra.Command{Use: "node",
		Short: "List the nodes of a running cluster of containers, add and remove them"}
	parent.AddCommand(a.nodeList(), a.nodeAdd(), a.nodeRemove())
	return parent
}

// nodeFlags describe an added node.
type nodeFlags struct {
	role                                string
	labels, taints, args, mounts, ports []string
}

func (a *app) nodeAdd() *cobra.Command {
	var f nodeFlags
	cmd := &cobra.Command{
		Use:   "add",
		Short: "Add a node, and wait until it is ready",
		Example: `  quintet node add
  quintet node add --role infra --label zone=a --taint only=infra:NoSchedule
  quintet node add --args=--max-pods=5 --mount /srv:/data:ro --port 5353:53/udp`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := f.options()
			if err != nil {
				return err
			}
			c, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			added, err := c.AddNode(cmd.Context(), options)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.err, "%s is ready.\n", added.Name())
			return nil
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.role, "role", "", "role that kubectl get nodes shows")
	fs.StringArrayVar(&f.labels, "label", nil, "KEY=VALUE: label of the node; may be repeated")
	fs.StringArrayVar(&f.taints, "taint", nil, "KEY[=VALUE]:EFFECT: taint of the node; may be repeated")
	fs.StringArrayVar(&f.args, "args", nil, "argument of the node's kubelet; may be repeated")
	fs.StringArrayVar(&f.mounts, "mount", nil,
		"HOSTPATH:PATH[:ro]: directory of the Docker engine's host in the node; may be repeated")
	fs.StringArrayVar(&f.ports, "port", nil,
		"HOSTPORT:PORT[/PROTOCOL]: port of the node on the Docker engine's host; may be repeated")
	return cmd
}

// parseLabels reads the values of --label.
func parseLabels(texts []string) (map[string]string, error) {
	labels := map[string]string{}
	for _, label := range texts {
		key, value, ok := strings.Cut(label, "=")
		if !ok {
			return nil, fmt.Errorf("--label %q: want KEY=VALUE, e.g. zone=a", label)
		}
		labels[key] = value
	}
	return labels, nil
}

// parseTaints reads the values of --taint.
func parseTaints(texts []string) ([]corev1.Taint, error) {
	var taints []corev1.Taint
	for _, taint := range texts {
		what, effect, ok := strings.Cut(taint, ":")
		if !ok {
			return nil, fmt.Errorf("--taint %q: want KEY[=VALUE]:EFFECT, e.g. only=infra:NoSchedule", taint)
		}
		key, value, _ := strings.Cut(what, "=")
		taints = append(taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return taints, nil
}

func (f nodeFlags) options() (cluster.NodeOptions, error) {
	o := cluster.NodeOptions{Role: f.role, Args: f.args}
	var err error
	if o.Labels, err = parseLabels(f.labels); err != nil {
		return o, err
	}
	if o.Taints, err = parseTaints(f.taints); err != nil {
		return o, err
	}
	for _, mount := range f.mounts {
		parts := strings.Split(mount, ":")
		if len(parts) < 2 || len(parts) > 3 || len(parts) == 3 && parts[2] != "ro" {
			return o, fmt.Errorf("--mount %q: want HOSTPATH:PATH[:ro], e.g. /srv:/data:ro", mount)
		}
		host, err := filepath.Abs(parts[0])
		if err != nil {
			return o, err
		}
		o.Mounts = append(o.Mounts, cluster.Mount{HostPath: host, ContainerPath: parts[1], ReadOnly: len(parts) == 3})
	}
	for _, port := range f.ports {
		mapping, err := parsePort(port)
		if err != nil {
			return o, err
		}
		o.Ports = append(o.Ports, mapping)
	}
	return o, nil
}

func parsePort(text string) (cluster.PortMapping, error) {
	ports, protocol, _ := strings.Cut(text, "/")
	host, member, ok := strings.Cut(ports, ":")
	hostPort, err := strconv.Atoi(host)
	memberPort, err2 := strconv.Atoi(member)
	if !ok || err != nil || err2 != nil {
		return cluster.PortMapping{}, fmt.Errorf("--port %q: want HOSTPORT:PORT[/PROTOCOL], e.g. 5353:53/udp", text)
	}
	return cluster.PortMapping{HostPort: hostPort, ContainerPort: memberPort,
		Protocol: corev1.Protocol(strings.ToUpper(protocol))}, nil
}

func (a *app) nodeList() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List nodes, and where each comes from",
		Long: `List nodes, and where each comes from: cluster, made by quintet up or node add; joined, by a token, in a
container of this Docker engine; elsewhere, without a container here.`,
		Example: `  quintet node list
  quintet node list --output json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			nodes, err := c.Nodes(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(output, nodes, func() error {
				table := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
				fmt.Fprintln(table, "NAME\tSTATUS\tORIGIN\tCONTAINER")
				for _, node := range nodes {
					fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", node.Name, nodeStatus(node), node.Origin,
						cmp.Or(node.Container, "-"))
				}
				return table.Flush()
			})
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func nodeStatus(node cluster.NodeInfo) string {
	switch {
	case node.Ready:
		return "Ready"
	case node.Registered:
		return "NotReady"
	default:
		return "not registered"
	}
}

func (a *app) nodeRemove() *cobra.Command {
	return &cobra.Command{
		Use:   "remove NODE...",
		Short: "Remove nodes: their containers and their Node objects; nothing is drained",
		Long: `Remove nodes: their containers and their Node objects. Nothing is drained. Nodes that joined by a token
are removed with their containers where those are of this Docker engine. Where a container is gone already, the Node
object goes.`,
		Example: `  quintet node remove node-2
  quintet kubectl drain node-3 --ignore-daemonsets && quintet node remove node-3`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			c, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			names, err = nodeNames(cmd.Context(), c, names)
			if err != nil {
				return err
			}
			for _, name := range names {
				if err := c.RemoveNamedNode(cmd.Context(), name); err != nil {
					return err
				}
				fmt.Fprintf(a.err, "%s is gone.\n", name)
			}
			return nil
		},
	}
}

// nodeNames gives the full names of nodes, of which numbers are short forms. That they exist, and that none is named
// twice, is checked before one is removed.
func nodeNames(ctx context.Context, c *cluster.Cluster, given []string) ([]string, error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	var known, out []string
	for _, node := range nodes {
		known = append(known, node.Name)
	}
	for _, name := range given {
		if _, err := strconv.Atoi(name); err == nil {
			name = "node-" + name
		}
		switch {
		case slices.Contains(out, name):
			return nil, fmt.Errorf("%s is named twice", name)
		case !slices.Contains(known, name):
			return nil, fmt.Errorf("cluster %s has no node %s; it has %v; nothing is removed", c.Name(), name, known)
		}
		out = append(out, name)
	}
	return out, nil
}
