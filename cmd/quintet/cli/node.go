package cli

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/cluster"
)

func (a *app) node() *cobra.Command {
	parent := &cobra.Command{Use: "node", Short: "Add nodes to a running cluster of containers, and remove them"}
	parent.AddCommand(a.nodeAdd(), a.nodeRemove())
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

func (f nodeFlags) options() (cluster.NodeOptions, error) {
	o := cluster.NodeOptions{Role: f.role, Labels: map[string]string{}, Args: f.args}
	for _, label := range f.labels {
		key, value, ok := strings.Cut(label, "=")
		if !ok {
			return o, fmt.Errorf("--label %q: want KEY=VALUE, e.g. zone=a", label)
		}
		o.Labels[key] = value
	}
	for _, taint := range f.taints {
		what, effect, ok := strings.Cut(taint, ":")
		if !ok {
			return o, fmt.Errorf("--taint %q: want KEY[=VALUE]:EFFECT, e.g. only=infra:NoSchedule", taint)
		}
		key, value, _ := strings.Cut(what, "=")
		o.Taints = append(o.Taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
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

func (a *app) nodeRemove() *cobra.Command {
	return &cobra.Command{
		Use:   "remove NODE...",
		Short: "Remove nodes: their containers and their Node objects; nothing is drained",
		Example: `  quintet node remove node-2
  quintet kubectl drain node-3 --ignore-daemonsets && quintet node remove node-3`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			var numbers []int
			for _, name := range names {
				n, err := strconv.Atoi(strings.TrimPrefix(name, "node-"))
				if err != nil {
					return fmt.Errorf("no node is called %q; they are called node-1, node-2 and so on", name)
				}
				numbers = append(numbers, n)
			}
			c, err := a.open(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := areNodes(c, numbers); err != nil {
				return err
			}
			for _, n := range numbers {
				if err := c.RemoveNode(cmd.Context(), n); err != nil {
					return err
				}
				fmt.Fprintf(a.err, "node-%d is gone.\n", n)
			}
			return nil
		},
	}
}

// areNodes checks that there are nodes of these numbers, and that none is named twice, before one is removed.
func areNodes(c *cluster.Cluster, numbers []int) error {
	left := map[string]bool{}
	for _, m := range c.Component(cluster.Node).Members {
		left[m.Name()] = true
	}
	for i, n := range numbers {
		name := fmt.Sprintf("node-%d", n)
		switch {
		case slices.Contains(numbers[:i], n):
			return fmt.Errorf("%s is named twice", name)
		case !left[name]:
			return fmt.Errorf("cluster %s has no node %s; it has %v; nothing is removed", c.Name(), name,
				slices.Sorted(maps.Keys(left)))
		}
	}
	return nil
}
