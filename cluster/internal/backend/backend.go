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

// ErrNoFile is returned by Instance.ReadFile for a file that the member does not have.
var ErrNoFile = errors.New("no such file")

// Registry is how images are pushed to a member: its usual port, and a user where it demands one.
type Registry struct {
	Port               int
	Username, Password string
}

// Member is one part of a cluster as it is to be run: a program with its arguments and files.
type Member struct {
	Name      string // unique in the cluster: "etcd-0", "node-1"
	Component string // "etcd", "kube-apiserver", ..., "node"
	Image     string
	// Program is what runs; a node's arguments are its kubelet's.
	Program string
	Args    []string
	// Files lie below the member's directory (Addressing.Dir); keys are relative to it.
	Files map[string][]byte
	// Port is the usual port on which this process must reach the member; 0 for none.
	Port int
	// Data are directories that the program writes to and that outlive a restart.
	Data []string
	// DataSize bounds the disk that each of them then is by itself, in bytes, and which lasts as long as a member runs
	// that has it; 0 is the machine's disk.
	DataSize int64
	// DataFrom names the member whose Data this one has, too. It is started after that member.
	DataFrom string
	// SharesNetworkWith names the member whose network namespace this one joins and configures; "" for one of its own.
	// It is started after that member, and restarted with it. Members of one process share its network anyway.
	SharesNetworkWith string
	// Network is what the member may do with its network.
	Network NetworkAccess
	// InProcess has the member run in this process, beside members in containers.
	InProcess bool
	// Machine marks a node that runs containers of its own.
	Machine bool
	// Publish are further ports of the member that are reachable on the machine that members run on.
	Publish []PublishedPort
	// Mounts are directories and files of that machine.
	Mounts []Mount
	// StopGrace is how long the member takes to end when it is told to; 0 leaves that to the back end.
	StopGrace time.Duration
	// Resources bound what the member and everything in it may use.
	Resources Resources
}

// Resources are amounts of a machine's; 0 is no bound.
type Resources struct {
	CPUs        int
	MemoryBytes int64
}

// PublishedPort is a port of a member on the machine that members run on.
type PublishedPort struct {
	Host, Member int
	Protocol     string     // tcp, udp or sctp
	Address      netip.Addr // of the machine; the zero value is the back end's choice
}

// Mount is a directory or file of the machine that members run on; both paths are absolute.
type Mount struct {
	HostPath, ContainerPath string
	ReadOnly                bool
}

// NetworkAccess is what a member may change in its own network namespace.
type NetworkAccess int

const (
	NetworkUse    NetworkAccess = iota
	NetworkAdmin                // set addresses and routes
	NetworkRouter               // and pass on packets of others, unchanged
	NetworkTap                  // as NetworkAdmin, and make interfaces
	NetworkNone                 // there is no network
)

// Addressing returns the addresses and paths of members before they are started, for arguments and certificates.
type Addressing interface {
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
	// PublicHost is the name or address in Endpoint, for certificates.
	PublicHost() string
	// Endpoint is host:port under which this process reaches the member's usual port.
	Endpoint(member string, usual int) string
}

// Backend runs the members of one cluster. Its methods are safe for concurrent use.
type Backend interface {
	// Prepare makes room for the members and tells where they will be. It is called once, before Start.
	Prepare(ctx context.Context, members []Placement) (Addressing, error)
	// Start creates a member and starts it; it does not wait until the member is ready.
	Start(ctx context.Context, m Member) (Instance, error)
	// Load makes an image of the local Docker engine known to the machines among instances.
	Load(ctx context.Context, ref string, machines []Instance) error
	// Push has the local Docker engine push an image to a registry that is a member, under another name, and returns the
	// digest of its manifest.
	Push(ctx context.Context, ref, name string, to Instance, r Registry) (digest string, err error)
	// Endpoint is host:port under which this process reaches a usual port of a member, however the cluster was started.
	Endpoint(ctx context.Context, of Instance, usual int) (string, error)
	// LoadArchive makes the images in an archive, a file of this machine as `docker save` writes it, known to machines.
	LoadArchive(ctx context.Context, file string, machines []Instance) error
	// Add makes room for one more member, as Prepare does, and tells where all are.
	Add(ctx context.Context, m Placement) (Addressing, error)
	// Remove ends one member and removes what was made for it. One that does not exist any more is no error.
	Remove(ctx context.Context, i Instance) error
	// Close ends and removes everything that the back end made. It may be called after a failure, and again.
	Close(ctx context.Context) error
	// Release frees what this process holds of the cluster, and leaves the cluster alone.
	Release() error
}

// Joinable is a Backend whose clusters take nodes that it does not start.
type Joinable interface {
	// Attachment tells how such a node is to be started.
	Attachment(ctx context.Context) (Attachment, error)
	// Joined are the nodes that were started so, and whose containers are there, by the names of their Node objects.
	Joined(ctx context.Context) ([]Instance, error)
}

// Attachment is how a container is started that becomes a node.
type Attachment struct {
	// Network is the name of the cluster's.
	Network string
	// Labels by which the container is found and removed with the cluster. The caller owns them.
	Labels map[string]string
	// RunFlags of `docker run` let it have containers of its own.
	RunFlags []string
	// Addressing of the cluster's members.
	Addressing Addressing
}

// Placement is what must be known of a member before its arguments are: its name and the port to reach it.
type Placement struct {
	Name      string
	Port      int       // as Member.Port
	Resources Resources // as Member.Resources
	InProcess bool      // as Member.InProcess
	DataSize  int64     // as Member.DataSize
}

// Instance is a member that was started. Its methods are safe for concurrent use.
type Instance interface {
	Name() string
	// Start runs the member again after Stop or Kill, with the same name, address, ports and data.
	Start(ctx context.Context) error
	// Stop stops the member gracefully, and kills it after grace, or its StopGrace if that is longer.
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
	// WriteFile writes one of the member's files, named as in ReadFile, also while the member is stopped.
	WriteFile(ctx context.Context, name string, content []byte) error
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
