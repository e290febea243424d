package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/cluster/internal/inprocess"
	"quintet.dev/quintet/components/scheduler"
)

// Program runs as a member of a cluster, inside this process, until ctx ends. It returns after everything that it
// started ended. An error, a panic of its goroutine, and nil before the end of ctx end the member: its log and its
// State tell why, and a start that waits for it fails with that. A member that ended is not started again by itself, as
// none is; Member.Start and Member.Restart call the program again with the same Env and an open Listener.
type Program func(ctx context.Context, env Env) error

// Env is what a Program has of its cluster: all that the component in whose place it runs would get. The clients of ctx
// log with Logger.
type Env struct {
	Component Component
	// Name is the member's, e.g. "scheduler-0".
	Name string
	// Node is the name of the Node that the program is the kubelet of; "" for all other components.
	Node string
	// Args are the component's command line, as WithArgs completes it: upstream's flags, see Flag.
	Args []string
	// Dir is a directory of the member's own, which outlives restarts and is removed with the cluster.
	Dir string
	// Kubeconfig names a file with the component's identity, and RESTConfig is what it says. They are empty for etcd and
	// API servers, which are no clients of the API, and for the balancer.
	Kubeconfig string
	RESTConfig *rest.Config
	// Listener is bound to the address at which the others reach the component, and nil if none does. The cluster closes
	// it when the program ends. A program that listens by itself closes it first, and takes its address.
	Listener net.Listener
	// Log is the member's log (Member.Logs), and Logger writes lines of klog there.
	Log    io.Writer
	Logger logr.Logger
	// Clock is the cluster's (WithClock), as far as ShiftClock put it forward or back for this member.
	Clock clock.WithTickerAndDelayedExecution
	// Original is the program that Quintet runs as this component, for a program that is something around it. It takes the
	// Env, which may be changed.
	Original Program

	moves bool // the clock is one that tests move
}

// File is the path of one of the member's files, as its arguments have it: "pki/ca.crt", or a name given to WithFile
// below /etc/kubernetes.
func (e Env) File(name string) string { return filepath.Join(e.Dir, filepath.FromSlash(name)) }

// Flag is the value of the last --name=value of Args.
func (e Env) Flag(name string) (value string, ok bool) {
	for _, arg := range e.Args {
		if v, found := strings.CutPrefix(arg, "--"+name+"="); found {
			value, ok = v, true
		}
	}
	return value, ok
}

// WithProgram runs a Go value of this process as each member of a component: in a cluster in process in the place of
// the component, and in one of containers beside them. There the API is reached at its published address, and what
// containers must reach (Etcd, APIServer, APIBalancer, MetricsServer, and the kubelets of Node) listens on this
// machine's address on the cluster's network. In the place of Node it is the kubelet of every node; the nodes are then
// hollow, on either rung: there is no pod network, and what belongs to it is left out.
//
// Components that are a part of their node or of the cluster's network can't be programs in containers: Start says
// which.
func WithProgram(component Component, program Program) Option {
	return func(c *config) error {
		if err := known(component); err != nil {
			return err
		}
		if program == nil {
			return fmt.Errorf("program of %s: it is nil", component)
		}
		c.programs[component] = program
		return nil
	}
}

// WithScheduler is WithProgram for the scheduler made with options: those with which it has plug-ins that are written
// over k8s.io/kube-scheduler/framework (scheduler.WithPlugin).
func WithScheduler(options ...scheduler.Option) Option {
	return WithProgram(Scheduler, runScheduler(options...))
}

// inThisProcess tells whether the members of a component run in this process.
func (c *config) inThisProcess(component Component) bool {
	return c.inProcess || c.programs[component] != nil || component == VolumeProvisioner && c.hollow()
}

// beside tells whether they do so beside containers.
func (c *config) beside(component Component) bool { return !c.inProcess && c.inThisProcess(component) }

// hollow tells whether the nodes are kubelets of this process, whose pods pretend.
func (c *config) hollow() bool { return c.inThisProcess(Node) }

// hasMembersBeside tells whether some members run beside containers, and whether containers must reach any of them.
func (c *config) hasMembersBeside() (any, reached bool) {
	reachable := []Component{Etcd, APIServer, APIBalancer, Node, MetricsServer}
	for _, component := range Components() {
		if c.beside(component) && len(c.names(component)) > 0 {
			any, reached = true, reached || slices.Contains(reachable, component)
		}
	}
	return any, reached
}

func (c *config) checkPrograms() error {
	for _, component := range Components() {
		if c.programs[component] == nil {
			continue
		}
		if why := c.whyNoProgram(component); why != nil {
			return fmt.Errorf("program of %s: %w", component, why)
		}
	}
	return nil
}

func (c *config) whyNoProgram(component Component) error {
	_, image := c.images[component]
	_, reached := c.hasMembersBeside()
	switch {
	case !c.runs(component):
		return errors.New(c.whyMissing(component))
	case image:
		return errors.New("it has no image")
	case c.inProcess:
		return nil
	case c.detached:
		return errors.New("a detached cluster outlives it")
	case component == Etcd && c.etcds > 1:
		return fmt.Errorf("%d members: beside containers there is one", c.etcds)
	case reached && c.family != IPv4:
		return fmt.Errorf("IP family %s: containers reach this process by IPv4 only", c.family)
	case component == VolumeProvisioner && !c.hollow():
		return errors.New("in a cluster of containers it is a process of the nodes, as their directories are; leave it out " +
			"and deploy another one")
	}
	return whereItBelongs[component]
}

// whereItBelongs says why a component can't run beside containers.
var whereItBelongs = map[Component]error{
	Routes: errors.New("in a cluster of containers it sets the routes of API servers' containers and of nodes; " +
		"take WithImage"),
	KubeProxy: errors.New("in a cluster of containers it sets up the network of its node; take WithImage"),
	NetworkPolicy: errors.New("in a cluster of containers it sets up the network of its node; leave it out and deploy " +
		"another"),
	DNS:           errors.New("in a cluster of containers it runs in pods; take WithImage"),
	CSIDriver:     errors.New("in a cluster of containers it runs in pods; take WithImage"),
	CloudProvider: errors.New("in a cluster of containers it is a router on the cluster's network; take WithImage"),
	Registry:      errors.New("in a cluster of containers nodes find it on the cluster's network; take WithImage"),
}

// processes are the programs of this process by their name, in the form of the back end.
func (h *host) processes() map[string]inprocess.Program {
	out := map[string]inprocess.Program{}
	for name, original := range h.originals {
		out[name] = func(ctx context.Context, p inprocess.Process) error {
			if p.Listener != nil {
				defer p.Listener.Close() // closed already if the program served on it
			}
			run := original
			if own := h.programs[Component(p.Member.Component)]; own != nil {
				run = own
			}
			env, err := h.env(ctx, p)
			if err != nil {
				return err
			}
			env.Original = original
			return run(ctx, env)
		}
	}
	return out
}

// host is what runs members in this process.
type host struct {
	originals map[string]Program // by program
	programs  map[Component]Program
	clocks    clocks
	shifts    *shifts
}

func (h *host) env(ctx context.Context, p inprocess.Process) (Env, error) {
	component := Component(p.Member.Component)
	env := Env{Component: component, Name: p.Member.Name, Args: slices.Clone(p.Member.Args), Dir: p.Dir,
		Listener: p.Listener, Log: p.Log, Logger: klog.FromContext(ctx), Clock: h.shifts.clock(p.Member.Name,
			h.clocks.of(component)),
		moves: h.clocks.move()}
	if component == Node {
		env.Node = p.Member.Name
	}
	file, ok := env.Flag("kubeconfig")
	if !ok {
		return env, nil
	}
	env.Kubeconfig = file
	var err error
	env.RESTConfig, err = clientcmd.BuildConfigFromFlags("", file)
	return env, err
}
