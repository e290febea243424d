// Package backend is the seam between what a cluster is and what its members run on. A back end places members,
// starts them, and carries out the verbs that tests use on them.
package backend

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"time"
)

// ErrUnsupported is returned for a verb that a back end can't carry out, e.g. pausing a member of this process.
var ErrUnsupported = errors.New("not supported by this kind of cluster")

// Member is one part of a cluster as it is to be run: a program with its arguments and files.
type Member struct {
	Name      string // unique in the cluster: "etcd-0", "node-1"
	Component string // "etcd", "kube-apiserver", ..., "node"
	Image     string
	// Program is what runs; a node's arguments are its kubelet's.
	Program string
	Args    []string
	// Files lie below the member's directory (Site.Dir); keys are relative to it.
	Files map[string][]byte
	// Port is the usual port on which this process must reach the member; 0 for none.
	Port int
	// Data are directories that the program writes to and that outlive a restart.
	Data []string
	// Beside names the member whose network this one shares, to arrange it; "" for a network of its own. It is started
	// after that member, and anew whenever that member was. Members of one process share its network anyway.
	Beside string
	// Network is what the member may do with its network.
	Network NetworkAccess
	// Machine marks a node that runs containers of its own.
	Machine bool
	// Publish maps further ports of this machine to ports of the member.
	Publish map[int]int
}

// NetworkAccess is what a member may do with its own network, beside using it.
type NetworkAccess int

const (
	NetworkUse    NetworkAccess = iota
	NetworkAdmin                // set addresses and routes
	NetworkRouter               // and pass on packets of others, unchanged
)

// Site tells where members are, before they are started, so that arguments and certificates can name it.
type Site interface {
	// Dir is the directory in which the member finds its Files.
	Dir(member string) string
	// Host is the name or address under which other members reach the member.
	Host(member string) string
	// IPs are the member's addresses, one of each family.
	IPs(member string) []string
	// Pools are addresses of the members' network that no member gets, for a member to give out. There may be none.
	Pools() []netip.Prefix
	// Port is the port that stands for a component's usual one.
	Port(member string, usual int) int
	// Endpoint is host:port under which this process reaches the member's usual port.
	Endpoint(member string, usual int) string
}

// Backend runs the members of one cluster. Its methods are safe for concurrent use.
type Backend interface {
	// Prepare makes room for the members and tells where they will be. It is called once, before Start.
	Prepare(ctx context.Context, members []Placement) (Site, error)
	// Start creates a member and starts it; it does not wait until the member is ready.
	Start(ctx context.Context, m Member) (Instance, error)
	// Load makes an image of the local Docker engine known to the machines among instances.
	Load(ctx context.Context, ref string, machines []Instance) error
	// Close ends and removes everything that the back end made. It may be called after a failure, and again.
	Close(ctx context.Context) error
	// Release frees what this process holds of the cluster, and leaves the cluster alone.
	Release() error
}

// Placement is what must be known of a member before its arguments are: its name and the port to reach it.
type Placement struct {
	Name string
	Port int // as Member.Port
}

// Instance is a member that was started. Its methods are safe for concurrent use.
type Instance interface {
	Name() string
	// Start runs the member again after Stop or Kill, with the same name, address, ports and data.
	Start(ctx context.Context) error
	// Stop asks the member to end, and kills it after grace.
	Stop(ctx context.Context, grace time.Duration) error
	Kill(ctx context.Context) error
	Pause(ctx context.Context) error
	Unpause(ctx context.Context) error
	// Exec runs a command inside the member. stdin may be nil.
	Exec(ctx context.Context, command []string, stdin io.Reader) (ExecResult, error)
	// Logs copies what the member wrote; with follow, until it ends or ctx does.
	Logs(ctx context.Context, follow bool, to io.Writer) error
	// ReadFile reads one of the member's files, named relative to its directory, also while the member is stopped.
	ReadFile(ctx context.Context, name string) ([]byte, error)
	// State tells whether the member runs.
	State(ctx context.Context) (State, error)
}

// ExecResult is how a command ended.
type ExecResult struct {
	Code           int
	Stdout, Stderr []byte
}

// State of a member.
type State struct {
	Running, Paused bool
	// ExitCode and Error are about the last end of a member that does not run.
	ExitCode int
	Error    string
}

// String is one word for people, e.g. "running" or "exited (1)".
func (s State) String() string {
	switch {
	case s.Paused:
		return "paused"
	case s.Running:
		return "running"
	case s.ExitCode == 0 && s.Error == "":
		return "stopped"
	default:
		return "failed"
	}
}
