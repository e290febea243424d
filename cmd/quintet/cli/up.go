package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/cluster/owner"
)

// upFlags are the flags of `quintet up`.
type upFlags struct {
	nodes, apiServers, etcds int
	images, args, without    []string
	publish                  []string
	inProcess                bool
	store, ipFamily          string
	timeout                  time.Duration
}

func (a *app) up() *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster",
		Long: `Start a cluster and wait until it can run pods.

A cluster of containers keeps running when the command ends; remove it with 'quintet down'. With --in-process the
cluster is this process: it lives until the command is interrupted.`,
		Example: `  quintet up                                     # one node, named quintet
  quintet up --name b --nodes 3                  # a second one beside it
  quintet up --image kube-scheduler=mine:dev     # one component swapped
  quintet up --args kube-scheduler=--v=4         # arguments for one component
  quintet up --without kube-scheduler            # run your own against the rest
  quintet up --without coredns                   # no cluster DNS, a second sooner
  quintet up --publish 8080:30080                # node port 30080 at 127.0.0.1:8080
  quintet up --ip-family dual                    # addresses of IPv4 and IPv6
  quintet up --in-process --nodes 100            # no Docker, hollow nodes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runUp(cmd.Context(), f) },
	}
	fs := cmd.Flags()
	fs.IntVar(&f.nodes, "nodes", 1, "number of nodes")
	fs.IntVar(&f.apiServers, "api-servers", 1, "number of API servers")
	fs.IntVar(&f.etcds, "etcd-members", 1, "number of etcd members")
	fs.StringArrayVar(&f.images, "image", nil, "COMPONENT=REF: run a component from another image; may be repeated")
	fs.StringArrayVar(&f.args, "args", nil, "COMPONENT=ARGUMENT: add an argument to a component's command line; may be repeated")
	fs.StringArrayVar(&f.without, "without", nil, "COMPONENT to leave out; may be repeated")
	fs.StringArrayVar(&f.publish, "publish", nil,
		"HOSTPORT:NODEPORT: make a node port reachable at a port of 127.0.0.1; may be repeated")
	fs.StringVar(&f.ipFamily, "ip-family", string(cluster.IPv4), "addresses of nodes, pods and Services: ipv4, ipv6 or dual")
	fs.BoolVar(&f.inProcess, "in-process", false, "run everything in this process, without Docker, on hollow nodes")
	fs.StringVar(&f.store, "store", "", "store of an in-process cluster: memory (the default) or etcd3")
	fs.DurationVar(&f.timeout, "timeout", 3*time.Minute, "how long to wait until the cluster is ready")
	return cmd
}

// options translates the flags.
func (f upFlags) options() ([]cluster.Option, error) {
	opts := []cluster.Option{
		cluster.WithNodes(f.nodes), cluster.WithAPIServers(f.apiServers), cluster.WithEtcdMembers(f.etcds),
		cluster.WithIPFamily(cluster.IPFamily(f.ipFamily)),
	}
	if f.store != "" {
		opts = append(opts, cluster.WithStore(cluster.Store(f.store)))
	}
	for _, publish := range f.publish {
		var hostPort, nodePort int
		if n, err := fmt.Sscanf(publish, "%d:%d", &hostPort, &nodePort); n != 2 || err != nil {
			return nil, fmt.Errorf("--publish %q: want HOSTPORT:NODEPORT, e.g. 8080:30080", publish)
		}
		opts = append(opts, cluster.WithPublishedPort(hostPort, nodePort))
	}
	for _, image := range f.images {
		component, ref, ok := strings.Cut(image, "=")
		if !ok {
			return nil, fmt.Errorf("--image %q: want COMPONENT=REF, e.g. kube-scheduler=mine:dev", image)
		}
		opts = append(opts, cluster.WithImage(cluster.Component(component), ref))
	}
	for _, arg := range f.args {
		component, value, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, fmt.Errorf("--args %q: want COMPONENT=ARGUMENT, e.g. kube-scheduler=--v=4", arg)
		}
		opts = append(opts, cluster.WithArgs(cluster.Component(component), value))
	}
	for _, component := range f.without {
		opts = append(opts, cluster.Without(cluster.Component(component)))
	}
	if f.inProcess {
		return append(opts, cluster.InProcess()), nil
	}
	return append(opts, cluster.Detached()), nil
}

func (a *app) runUp(ctx context.Context, f upFlags) error {
	name := a.name
	if name == "" {
		name = defaultName
	}
	opts, err := f.options()
	if err != nil {
		return err
	}
	e := entry{Name: name, InProcess: f.inProcess}
	if f.inProcess {
		if e.Owner, err = a.claim(name); err != nil {
			return err
		}
	}
	began := time.Now()
	starting, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	c, err := cluster.Start(starting, append(opts, cluster.WithName(name), cluster.WithProgress(a.progress()))...)
	if err != nil {
		return err
	}
	if err := a.state.save(e, c.Kubeconfig()); err != nil {
		return errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	fmt.Fprintf(a.err, "Cluster %s is ready after %.1f s.\n", name, time.Since(began).Seconds())
	suffix := ""
	if name != defaultName {
		suffix = " --name " + name
	}
	fmt.Fprintf(a.err, "\n  quintet%s kubectl get nodes\n  export KUBECONFIG=%s\n", suffix, a.state.kubeconfig(name))
	if !f.inProcess {
		fmt.Fprintf(a.err, "  quintet down%s\n", suffix)
		return nil
	}
	fmt.Fprintln(a.err, "\nThe cluster is this process; interrupt it (Ctrl-C) to end it.")
	<-ctx.Done()
	return errors.Join(c.Stop(context.WithoutCancel(ctx)), a.state.remove(name))
}

// claim makes sure that no living process has a cluster of that name, and names this one as its owner.
func (a *app) claim(name string) (string, error) {
	entries, err := a.state.inProcess()
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.Name == name {
			return "", fmt.Errorf("a cluster %s runs in another process; choose another --name, or end it: quintet down --name %s", name, name)
		}
	}
	return owner.Self()
}

// progress prints a line per step.
func (a *app) progress() func(cluster.Event) {
	return func(e cluster.Event) {
		switch {
		case e.Notice != "":
			fmt.Fprintln(a.err, "  -", e.Notice)
		case e.Done && e.Err == nil:
			fmt.Fprintf(a.err, "  + %-26s %.2f s\n", e.Step, e.Took.Seconds())
		case e.Done:
			fmt.Fprintf(a.err, "  ! %-26s %.2f s\n", e.Step, e.Took.Seconds())
		}
	}
}
