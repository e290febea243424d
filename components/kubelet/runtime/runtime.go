// Package runtime is what the kubelet needs from a container engine: one small interface, spoken in pods.
package runtime

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ErrNotFound tells that a container or image does not exist (any more).
var ErrNotFound = errors.New("not found")

// Runtime runs the containers of one node's pods. All methods may be called concurrently, take a context
// that bounds the call, and know only what this runtime made for this node: other containers of the same
// engine are invisible.
type Runtime interface {
	// Info describes the engine and the machine it runs on.
	Info(ctx context.Context) (Info, error)
	// SetPodCIDRs prepares the pod network, with one range of each family that pods have; sandboxes that are not on the
	// host network need it first. The addresses of a sandbox have the order of the ranges.
	SetPodCIDRs(ctx context.Context, cidrs []string) error

	// Pods returns every pod that has a container, running or not.
	Pods(ctx context.Context) ([]Pod, error)
	// Pod returns one pod; a pod without containers is the zero Pod with its UID.
	Pod(ctx context.Context, uid types.UID) (Pod, error)
	// Events delivers the UID of each pod one of whose containers changed, until ctx ends or the engine is
	// lost, when the channel is closed. Events may be merged, never invented.
	Events(ctx context.Context) (<-chan types.UID, error)

	// CreateSandbox makes and starts the container that holds a pod's namespaces, and returns its ID. Pod tells its
	// addresses.
	CreateSandbox(ctx context.Context, spec *SandboxSpec) (string, error)
	// CreateContainer makes a container in a sandbox, which runs before the container is started, and returns its ID.
	CreateContainer(ctx context.Context, spec *ContainerSpec) (string, error)
	// Start starts a created container.
	Start(ctx context.Context, id string) error
	// Stop asks a container or sandbox to end (with its stop signal), kills it after grace, and returns when it
	// ended. One that has ended already, or is gone, is no error. A later Stop may shorten an earlier one.
	Stop(ctx context.Context, id string, grace time.Duration) error
	// Resize gives a running container other resources without stopping it. What is zero stays as it is.
	Resize(ctx context.Context, id string, r Resources) error
	// Remove deletes a stopped container or sandbox with its writable layer; one that is gone is no error.
	Remove(ctx context.Context, id string) error
}

// Images is the engine's image store.
type Images interface {
	// Image finds an image on the node by reference or ID; ErrNotFound if it is not there.
	Image(ctx context.Context, ref string) (Image, error)
	// Images lists all images of the node, with the space that each takes.
	Images(ctx context.Context) ([]Image, error)
	// Pull fetches an image with a credential; the zero Credential is anonymous.
	Pull(ctx context.Context, ref string, credential Credential) (Image, error)
	// RemoveImage deletes an image with all its names. One that is gone is no error, one that a container uses is.
	RemoveImage(ctx context.Context, id string) error
	// ImageFilesystem tells about the file system that images lie on.
	ImageFilesystem(ctx context.Context) (Filesystem, error)
}

// Filesystem is how full a file system is, in bytes.
type Filesystem struct {
	// Path is a directory on it, "" if it is simulated.
	Path                string
	Capacity, Available int64
}

// Streams are exec, attach, port-forward and logs.
type Streams interface {
	// Logs copies a container's output to stdout and stderr until its end, or until ctx ends when following.
	Logs(ctx context.Context, id string, options LogOptions, stdout, stderr io.Writer) error
	// Exec runs a command in a container and returns its exit code; an error means that it could not be run.
	Exec(ctx context.Context, id string, options ExecOptions) (int, error)
	// Attach connects streams with a container's first process until it or the client ends.
	Attach(ctx context.Context, id string, options ExecOptions) error
	// Dial opens a TCP connection to a port inside a sandbox's network namespace.
	Dial(ctx context.Context, sandboxID string, port int32) (net.Conn, error)
}

// Engine is the complete interface.
type Engine interface {
	Runtime
	Images
	Streams
}

// Statistics is an optional ability of an Engine: the use of resources by a running container.
type Statistics interface {
	Stats(ctx context.Context, id string) (Usage, error)
}

// MachineStatistics is an optional ability of an Engine whose machine is simulated: the use of resources by all of it.
// CPU time never decreases.
type MachineStatistics interface {
	MachineStats(ctx context.Context) (Usage, error)
}

// Usage is what a container used: CPU time since its start, and memory now.
type Usage struct {
	CPU         time.Duration
	MemoryBytes uint64
	// WorkingSetBytes is memory without inactive file pages.
	WorkingSetBytes uint64
	At              time.Time

	// CPUUser and CPUSystem are parts of CPU.
	CPUUser, CPUSystem time.Duration
	// RSSBytes is anonymous memory, CacheBytes that of files; both are parts of MemoryBytes.
	RSSBytes, CacheBytes, SwapBytes uint64
	PageFaults, MajorPageFaults     uint64
	Processes                       uint64
	// Networks are the interfaces of a sandbox that has a network of its own.
	Networks []NetworkUsage
}

// NetworkUsage is what came through an interface since it exists.
type NetworkUsage struct {
	Name                                    string
	RxBytes, RxPackets, RxErrors, RxDropped uint64
	TxBytes, TxPackets, TxErrors, TxDropped uint64
}

// ImageSaver is an optional ability of an Engine: the layers of an image of the node, as a tar archive in the format of
// "docker save". The caller closes it.
type ImageSaver interface {
	SaveImage(ctx context.Context, id string) (io.ReadCloser, error)
}

// Disks is an optional ability of an Engine: the space that a container takes on the machine's disks.
type Disks interface {
	Disk(ctx context.Context, id string) (DiskUsage, error)
}

// DiskUsage is how many bytes a container wrote into its own file system, and how many its logs have.
type DiskUsage struct{ Written, Logs int64 }

// LogFiles is an optional ability of an Engine: it writes the output of containers as files itself, in the layout and
// format of package logs, into the directory that it was given. Others rotate and remove them.
type LogFiles interface {
	// ReopenLog has the engine continue the output of a running container in a new file of the same name.
	ReopenLog(ctx context.Context, id string) error
}

// Info describes an engine and its machine.
type Info struct {
	Name            string // "docker"
	Version         string
	KernelVersion   string
	OperatingSystem string
	Architecture    string // Go's name of it
	CPUs            int
	MemoryBytes     int64
	CgroupDriver    string // "cgroupfs" or "systemd"
	CgroupVersion   string // "1" or "2"
	// RecursiveReadOnly tells that mounts below a read-only mount can be made read-only, too (KEP-3857).
	RecursiveReadOnly bool
	// Handlers are those that the engine tells of, which pods choose by their RuntimeClass; that of the empty name is
	// the default.
	Handlers []Handler
	// StrictGroups tells that containers can be kept from the groups that their image gives their user (KEP-3619).
	StrictGroups bool
	// Simulated is what there is not behind the engine's answers.
	Simulated Simulated
}

// Handler is a way of an engine to run pods, and what it can do.
type Handler struct {
	Name              string
	RecursiveReadOnly bool
}

// Simulated tells what an engine only simulates. The zero value is an engine that simulates nothing.
type Simulated struct {
	// Files: neither containers nor the node have files on this machine. No volumes, no files that are mounted into
	// containers and no certificates are written, and the machine's disk and logs are not the node's.
	Files bool
	// Processes: containers run nothing. Nothing can be executed in them or asked of them, so that probes and hooks
	// pass; nothing uses resources, so that they are not in control groups; nothing reads the environment variables of
	// services; and no feature of a pod can be missing.
	Processes bool
	// Network: the addresses of pods lead nowhere and the node has none of this machine's. No host ports are opened.
	Network bool
}

// State is the lifecycle state of a container.
type State string

// The states of containers and sandboxes.
const (
	Created State = "Created"
	Running State = "Running"
	Exited  State = "Exited"
)

// Pod is what the engine holds for one pod. Sandboxes and containers are ordered from newest to oldest.
type Pod struct {
	UID             types.UID
	Namespace, Name string
	Sandboxes       []Sandbox
	Containers      []Container
}

// Sandbox is a container that holds a pod's namespaces.
type Sandbox struct {
	ID      string
	Attempt int
	State   State
	Created time.Time
	IPs     []string // empty on the host network
	// Ports are those of SandboxSpec, except on the host network.
	Ports []v1.ContainerPort
}

// Container is one run of one of a pod's containers.
type Container struct {
	ID, Name  string
	SandboxID string
	Attempt   int // the restart count
	Image     string
	ImageID   string
	ImageRef  string // how statuses name the image, "" for the scheme of the engine and ImageID
	Hash      string // of the container's specification, as given in ContainerSpec
	State     State
	Created   time.Time
	Started   time.Time
	Finished  time.Time
	ExitCode  int
	OOMKilled bool
	StartErr  string // why it could not be started; State is then Exited
	// MessageFile is the termination message file on the node.
	MessageFile string
	User        string // numeric "uid:gid,..." as far as the engine tells, else ""
	Resources          // that it has now
	// MemoryRequest is that of ContainerSpec; no Resize changes it.
	MemoryRequest int64
	// StopSignal is the name of the signal that stops it, as SIGTERM; "" if the engine doesn't tell.
	StopSignal string
}

// Resources are what a container gets of the machine.
type Resources struct {
	CPUShares   int64
	CPUQuota    int64 // microseconds in CPUPeriod; 0 is none
	CPUPeriod   int64 // microseconds
	MemoryBytes int64 // 0 is none
}

// Sandbox returns the newest sandbox, or nil.
func (p *Pod) Sandbox() *Sandbox {
	if len(p.Sandboxes) == 0 {
		return nil
	}
	return &p.Sandboxes[0]
}

// Container returns the newest run of the container called name, or nil.
func (p *Pod) Container(name string) *Container {
	for i := range p.Containers {
		if p.Containers[i].Name == name {
			return &p.Containers[i]
		}
	}
	return nil
}

// Previous returns the run before the newest of the container called name, or nil.
func (p *Pod) Previous(name string) *Container {
	seen := false
	for i := range p.Containers {
		if p.Containers[i].Name != name {
			continue
		}
		if seen {
			return &p.Containers[i]
		}
		seen = true
	}
	return nil
}

// AnyRunning tells whether a container, sandboxes not counted, runs.
func (p *Pod) AnyRunning() bool {
	for i := range p.Containers {
		if p.Containers[i].State == Running {
			return true
		}
	}
	return false
}

// PodRef names the pod that a sandbox or container belongs to.
type PodRef struct {
	UID             types.UID
	Namespace, Name string
}

// SandboxSpec describes a sandbox.
type SandboxSpec struct {
	Pod          PodRef
	Attempt      int
	Image        string
	Hostname     string
	Domainname   string
	HostNetwork  bool
	HostPID      bool
	HostIPC      bool
	SharePID     bool
	Privileged   bool   // one of its containers will be
	Handler      string // of Info, "" for the default
	Sysctls      map[string]string
	Ports        []v1.ContainerPort // with a host port; the engine only keeps them
	CgroupParent string
	Labels       map[string]string // the pod's own
	// Annotations are the pod's; the hollow runtime takes its script from them.
	Annotations map[string]string
	// Created, if set, is called with the sandbox's ID once containers can be made in it, before it is started; again
	// with another ID if it has to be recreated.
	Created func(id string)
}

// ContainerSpec describes a container of a pod.
type ContainerSpec struct {
	Pod       PodRef
	Name      string
	Attempt   int
	SandboxID string
	Hash      string

	Image      string // as asked for
	ImageID    string // as found
	Command    []string
	Args       []string
	WorkingDir string
	Env        []string
	Mounts     []Mount
	Devices    []Device
	CDI        []string // fully qualified names of CDI devices
	Stdin      bool
	StdinOnce  bool
	TTY        bool
	StopSignal string // "" is the image's, or SIGTERM

	HostNetwork bool
	HostPID     bool
	SharePID    bool
	TargetPID   string // container whose process namespace is joined, "" for none

	User         string   // "uid", "uid:gid" or ""
	Groups       []string // supplementary
	StrictGroups bool     // no others, whatever the image says; only where Info tells that the engine can
	Handler      string   // that of the sandbox
	Privileged   bool
	ReadOnlyRoot bool
	NoNewPrivs   bool
	AddCaps      []string
	DropCaps     []string
	Seccomp      string // "", "unconfined", or the content of a profile
	AppArmor     string // "", "unconfined", or a profile's name
	SELinux      []string
	UnmaskedProc bool
	CgroupParent string
	Resources
	MemoryRequest  int64 // in bytes; nothing comes of it but what Container tells
	PidsLimit      int64 // 0 is none
	OOMScoreAdjust int

	LogMaxSize  string
	LogMaxFiles int
	MessageFile string // termination message file on the node

	Annotations map[string]string // the pod's, for the hollow runtime
	// DeviceAnnotations are those that drivers of devices ask for.
	DeviceAnnotations map[string]string
}

// Mount binds a path of the node into a container.
type Mount struct {
	Source, Target string
	ReadOnly       bool
	// RecursiveReadOnly asks that mounts below Source are read-only too, or fails.
	RecursiveReadOnly bool
	Propagation       string // "rslave", "rshared", or "" for what the engine does by itself
}

// Device gives a container a device of the node.
type Device struct {
	Source, Target string
	ReadOnly       bool
	// Permissions are what a container may do with it: letters of "rwm". "" is all that ReadOnly leaves.
	Permissions string
}

// Image is an image of the node.
type Image struct {
	ID        string // sha256:...
	Tags      []string
	Digests   []string
	SizeBytes int64
	User      string // the user it asks for
}

// Reference is the image's ID as a container status reports it.
func (i *Image) Reference() string {
	if len(i.Digests) > 0 {
		return "docker-pullable://" + i.Digests[0]
	}
	return "docker://" + i.ID
}

// Credential authenticates to a registry. The zero value is no credential.
type Credential struct {
	Username, Password, Auth, ServerAddress, IdentityToken, RegistryToken string
}

// LogOptions select from a container's output. The zero value is all of it.
type LogOptions struct {
	Follow     bool
	Timestamps bool
	Since      time.Time
	Tail       *int64
}

// Size is a terminal's.
type Size struct{ Width, Height uint16 }

// ExecOptions are a command and the streams it is connected with; nil streams are not.
type ExecOptions struct {
	Command []string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	TTY     bool
	Resize  <-chan Size
}
