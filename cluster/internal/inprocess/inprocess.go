// Package inprocess runs members of a cluster as goroutines of this process, without Docker.
package inprocess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"quintet.dev/quintet/cluster/internal/backend"
	"quintet.dev/quintet/cluster/owner"
)

// closeGrace is what each member gets to end when the cluster is removed.
const closeGrace = 30 * time.Second

// Program runs a member until ctx ends. It returns only after everything that it started ended.
type Program func(ctx context.Context, p Process) error

// Process is what a program gets.
type Process struct {
	// Member is what runs, as it was planned.
	Member backend.Member
	// Dir is the member's own directory, with its files. It is removed with the member.
	Dir string
	// Listener is bound to the member's port, and nil for a member that has none. The program closes it.
	Listener net.Listener
	// Log is where the program's log lines go; klog's logger in ctx writes there.
	Log io.Writer
}

// Config of a back end.
type Config struct {
	Cluster string
	// Programs by name, as in backend.Member.
	Programs map[string]Program
	// Host is the address of this machine that members listen on; 127.0.0.1 if empty.
	Host string
}

// InProcess is a backend.Backend.
type InProcess struct {
	config Config

	mu        sync.Mutex
	dir       string                  // of all members' files; made by Prepare
	ports     map[string]int          // "member/usual" -> real
	listeners map[string]net.Listener // reserved and not used yet
	served    map[string]string       // member -> key of the port that its program listens on
	instances map[string]*instance
}

// New makes a back end. It takes nothing before Prepare.
func New(c Config) *InProcess {
	if c.Host == "" {
		c.Host = "127.0.0.1"
	}
	return &InProcess{
		config: c, ports: map[string]int{}, listeners: map[string]net.Listener{},
		served: map[string]string{}, instances: map[string]*instance{},
	}
}

// Prepare makes a directory for files, removes those of dead processes, and reserves the members' ports.
func (b *InProcess) Prepare(_ context.Context, members []backend.Placement) (backend.Addressing, error) {
	tag, err := owner.Tag()
	if err != nil {
		return nil, err
	}
	if err := Reap(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", dirPrefix+b.config.Cluster+"-"+tag+"-")
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dir = dir
	for _, m := range members {
		if err := b.reserve(m); err != nil {
			return nil, err
		}
	}
	return addressing{b}, nil
}

// dirPrefix begins the names of directories. The cluster, the tag of the process and a random number follow.
const dirPrefix = "quintet-"

// Reap removes the directories of clusters whose process ended without doing so.
func Reap() error {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		parts := strings.Split(e.Name(), "-")
		if strings.HasPrefix(e.Name(), dirPrefix) && len(parts) > 3 && owner.DeadTag(parts[len(parts)-2]) {
			errs = append(errs, os.RemoveAll(filepath.Join(os.TempDir(), e.Name())))
		}
	}
	return errors.Join(errs...)
}

func portKey(member string, usual int) string { return member + "/" + strconv.Itoa(usual) }

// Start runs a member.
func (b *InProcess) Start(ctx context.Context, m backend.Member) (backend.Instance, error) {
	program, ok := b.config.Programs[m.Program]
	if !ok {
		return nil, fmt.Errorf("start %s: no program %s in this process", m.Name, m.Program)
	}
	dir := addressing{b}.Dir(m.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for name, content := range m.Files {
		if err := writeFile(filepath.Join(dir, name), content); err != nil {
			return nil, err
		}
	}
	i := &instance{
		member: m, dir: dir, program: program,
		listen: func() (net.Listener, error) { return b.listen(m.Name) },
	}
	b.mu.Lock()
	b.instances[m.Name] = i
	b.mu.Unlock()
	return i, i.Start(ctx)
}

func writeFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o600)
}

// listen binds a member's port: it uses the reserved listener first, and listens again after the member has ended.
func (b *InProcess) listen(member string) (net.Listener, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key, ok := b.served[member]
	if !ok {
		return nil, nil
	}
	if listener, reserved := b.listeners[key]; reserved {
		delete(b.listeners, key)
		return listener, nil
	}
	return net.Listen("tcp", net.JoinHostPort(b.config.Host, strconv.Itoa(b.ports[key])))
}

// Load has nothing to do: hollow nodes have every image.
func (b *InProcess) Load(context.Context, string, []backend.Instance) error { return nil }

// Push implements backend.Backend: hollow nodes pull from no registry.
func (b *InProcess) Push(context.Context, string, string, backend.Instance, backend.Registry) (string, error) {
	return "", backend.ErrUnsupported
}

// Endpoint implements backend.Backend.
func (b *InProcess) Endpoint(_ context.Context, of backend.Instance, usual int) (string, error) {
	return addressing{b}.Endpoint(of.Name(), usual), nil
}

// LoadArchive has nothing to do, as Load.
func (b *InProcess) LoadArchive(context.Context, string, []backend.Instance) error { return nil }

// Add reserves the port of one more member.
func (b *InProcess) Add(_ context.Context, m backend.Placement) (backend.Addressing, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return addressing{b}, b.reserve(m)
}

// reserve must be called with mu held.
func (b *InProcess) reserve(m backend.Placement) error {
	if m.Port == 0 {
		return nil
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(b.config.Host, "0"))
	if err != nil {
		return err
	}
	key := portKey(m.Name, m.Port)
	if old := b.listeners[key]; old != nil {
		_ = old.Close() // of a member that was never started
	}
	b.listeners[key], b.ports[key], b.served[m.Name] = listener, listener.Addr().(*net.TCPAddr).Port, key
	return nil
}

// Remove ends a member, frees its port and removes its files.
func (b *InProcess) Remove(ctx context.Context, i backend.Instance) error {
	if err := i.Stop(ctx, closeGrace); err != nil {
		return err
	}
	dir := addressing{b}.Dir(i.Name())
	b.mu.Lock()
	key := b.served[i.Name()]
	delete(b.instances, i.Name())
	delete(b.served, i.Name())
	delete(b.ports, key)
	b.mu.Unlock()
	return os.RemoveAll(dir)
}

// store is the component that ends last: API servers wait for it when they end.
const store = "etcd"

// Close ends all members, the store's last, and removes their files.
func (b *InProcess) Close(ctx context.Context) error {
	b.mu.Lock()
	instances := slices.Collect(maps.Values(b.instances))
	listeners := slices.Collect(maps.Values(b.listeners))
	dir := b.dir
	b.instances, b.listeners = map[string]*instance{}, map[string]net.Listener{}
	b.mu.Unlock()
	var errs []error
	for _, last := range []bool{false, true} {
		var group errgroup.Group
		for _, i := range instances {
			if (i.member.Component == store) == last {
				group.Go(func() error { return i.Stop(ctx, closeGrace) })
			}
		}
		errs = append(errs, group.Wait())
	}
	for _, listener := range listeners {
		errs = append(errs, listener.Close())
	}
	if dir != "" {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// Release has nothing to free: a cluster ends with its process.
func (b *InProcess) Release() error { return nil }

// addressing is a backend.Addressing: all members are at one address, distinguished by ports.
type addressing struct{ b *InProcess }

func (s addressing) Dir(member string) string {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	return filepath.Join(s.b.dir, member)
}

func (s addressing) Host(string) string  { return s.b.config.Host }
func (s addressing) IPs(string) []string { return []string{s.b.config.Host} }

// Pools of addresses there are none: nothing runs in pods.
func (addressing) Pools() []netip.Prefix { return nil }

// Port is 0 for a port that was not asked for in the Placement: programs then serve nothing.
func (s addressing) Port(member string, usual int) int {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	return s.b.ports[portKey(member, usual)]
}

func (s addressing) PublicHost() string { return s.b.config.Host }

func (s addressing) Endpoint(member string, usual int) string {
	return net.JoinHostPort(s.b.config.Host, strconv.Itoa(s.Port(member, usual)))
}
