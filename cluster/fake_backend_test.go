package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"quintet.dev/quintet/cluster/internal/backend"
)

// fakeBackend records what it is asked. It is safe for concurrent use.
type fakeBackend struct {
	fails map[string]error // by what is asked, e.g. "start node-1"

	mu  sync.Mutex
	log []string
}

func (b *fakeBackend) do(what string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log = append(b.log, what)
	return b.fails[what]
}

func (b *fakeBackend) asked(what string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Index(b.log, what)
}

func (b *fakeBackend) Prepare(context.Context, []backend.Placement) (backend.Addressing, error) {
	return nowhere{}, b.do("prepare")
}

func (b *fakeBackend) Start(_ context.Context, m backend.Member) (backend.Instance, error) {
	if err := b.do("start " + m.Name); err != nil {
		return nil, err
	}
	return &fakeInstance{backend: b, name: m.Name, running: true}, nil
}

func (b *fakeBackend) Load(_ context.Context, ref string, machines []backend.Instance) error {
	var names []string
	for _, m := range machines {
		names = append(names, m.Name())
	}
	return b.do(fmt.Sprintf("load %s to %v", ref, names))
}

func (b *fakeBackend) Push(_ context.Context, ref, name string, _ backend.Instance, _ backend.Registry) (string,
	error) {
	return "sha256:" + name, b.do("push " + ref + " as " + name)
}

func (b *fakeBackend) Endpoint(context.Context, backend.Instance, int) (string, error) {
	return "127.0.0.1:5000", b.do("endpoint")
}

func (b *fakeBackend) LoadArchive(_ context.Context, file string, machines []backend.Instance) error {
	return b.do(fmt.Sprintf("load archive %s to %d machines", file, len(machines)))
}

func (b *fakeBackend) Add(_ context.Context, m backend.Placement) (backend.Addressing, error) {
	return nowhere{}, b.do("add " + m.Name)
}

func (b *fakeBackend) Remove(_ context.Context, i backend.Instance) error {
	return b.do("remove " + i.Name())
}

func (b *fakeBackend) Close(context.Context) error { return b.do("close") }
func (b *fakeBackend) Release() error              { return b.do("release") }

// fakeInstance is a member of a fakeBackend.
type fakeInstance struct {
	backend *fakeBackend
	name    string
	lines   string
	files   map[string][]byte

	mu      sync.Mutex
	running bool
	code    int
	grace   time.Duration
}

func (i *fakeInstance) Name() string { return i.name }

func (i *fakeInstance) verb(what string, running bool) error {
	if err := i.backend.do(what + " " + i.name); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.running = running
	return nil
}

func (i *fakeInstance) Start(context.Context) error { return i.verb("start", true) }
func (i *fakeInstance) Kill(context.Context) error  { return i.verb("kill", false) }
func (i *fakeInstance) Stop(_ context.Context, grace time.Duration) error {
	i.grace = grace
	return i.verb("stop", false)
}
func (i *fakeInstance) Pause(context.Context) error   { return i.verb("pause", true) }
func (i *fakeInstance) Unpause(context.Context) error { return i.verb("unpause", true) }

func (i *fakeInstance) Exec(_ context.Context, command []string, _ io.Reader) (backend.ExecResult, error) {
	return backend.ExecResult{Code: len(command)}, i.backend.do(fmt.Sprint("exec ", i.name, " ", command))
}

func (i *fakeInstance) Logs(_ context.Context, _ bool, to io.Writer) error {
	if err := i.backend.fails["logs "+i.name]; err != nil {
		return err
	}
	_, err := io.WriteString(to, i.lines)
	return err
}

func (i *fakeInstance) ReadFile(_ context.Context, name string) ([]byte, error) {
	if content, ok := i.files[name]; ok {
		return content, nil
	}
	return []byte(name), nil
}

func (i *fakeInstance) WriteFile(_ context.Context, name string, content []byte) error {
	i.files[name] = content
	return i.backend.do("write " + i.name + " " + name)
}

func (i *fakeInstance) State(context.Context) (backend.State, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return backend.State{Running: i.running, ExitCode: i.code}, i.backend.fails["state "+i.name]
}

// faked is a cluster of members on a fakeBackend; a member is NAME/COMPONENT.
func faked(fails map[string]error, members ...string) (*Cluster, *fakeBackend) {
	b := &fakeBackend{fails: fails}
	c := &Cluster{config: newConfig("x"), backend: b}
	for _, m := range members {
		name, component, _ := strings.Cut(m, "/")
		c.members = append(c.members, &Member{name: name, component: Component(component),
			instance: &fakeInstance{backend: b, name: name, running: true}})
	}
	c.link()
	return c, b
}

func TestVerbs(t *testing.T) {
	ctx := t.Context()
	c, b := faked(nil, "etcd-0/etcd", "scheduler-0/kube-scheduler", "node-1/node", "node-2/node")
	for want, verb := range map[string]func() error{
		"[kill node-2]":                                       func() error { return c.Node(2).Kill(ctx) },
		"[stop etcd-0]":                                       func() error { return c.Member("etcd-0").Stop(ctx) },
		"[stop etcd-0 start etcd-0]":                          func() error { return c.Member("etcd-0").Restart(ctx) },
		"[pause node-1 pause node-2]":                         func() error { return c.Component(Node).Pause(ctx) },
		"[unpause node-1 unpause node-2]":                     func() error { return c.Component(Node).Unpause(ctx) },
		"[stop node-1 stop node-2]":                           func() error { return c.Component(Node).Stop(ctx) },
		"[start node-1 start node-2]":                         func() error { return c.Component(Node).Start(ctx) },
		"[kill scheduler-0]":                                  func() error { return c.Component(Scheduler).Kill(ctx) },
		"[stop node-1 start node-1 stop node-2 start node-2]": func() error { return c.Component(Node).Restart(ctx) },
		"[exec node-1 [ls -l]]": func() error {
			result, err := c.Node(1).Exec(ctx, []string{"ls", "-l"}, nil)
			if result.Code != 2 {
				t.Errorf("exec: %+v", result)
			}
			return err
		},
	} {
		b.log = nil
		if err := verb(); err != nil || fmt.Sprint(b.log) != want {
			t.Errorf("did %v, %v; want %s", b.log, err, want)
		}
	}
	if grace := c.Member("etcd-0").instance.(*fakeInstance).grace; grace != stopGrace {
		t.Errorf("a member gets %v to end", grace)
	}
}

// TestVerbsGoOn: a verb on a group reaches all members, and tells all errors.
func TestVerbsGoOn(t *testing.T) {
	one, three := errors.New("one"), errors.New("three")
	c, b := faked(map[string]error{"kill node-1": one, "kill node-3": three}, "node-1/node", "node-2/node", "node-3/node")
	err := c.Component(Node).Kill(t.Context())
	if !errors.Is(err, one) || !errors.Is(err, three) || len(b.log) != 3 {
		t.Errorf("did %v, %v", b.log, err)
	}
	if err := c.Node(1).Restart(t.Context()); err != nil {
		t.Errorf("restart: %v", err)
	}
	b.fails["stop node-2"] = one
	b.log = nil
	if err := c.Node(2).Restart(t.Context()); !errors.Is(err, one) || len(b.log) != 1 {
		t.Errorf("a member that can't be stopped was started: %v, %v", b.log, err)
	}
}

// TestCompanions: what shares an API server's network is restarted with it, and not with another one.
func TestCompanions(t *testing.T) {
	c, b := faked(nil, "apiserver-0/kube-apiserver", "apiserver-1/kube-apiserver", "routes-0/node-routes",
		"routes-1/node-routes")
	if err := c.Member("apiserver-1").Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := "[stop apiserver-1 start apiserver-1 stop routes-1 start routes-1]"
	if got := fmt.Sprint(b.log); got != want {
		t.Errorf("did %s, want %s", got, want)
	}
	b.fails = map[string]error{"stop routes-0": errors.New("busy")}
	if err := c.Member("apiserver-0").Start(t.Context()); err == nil {
		t.Error("a companion that can't be restarted is no error")
	}
}

// TestMissing: every verb on a member that is not there names it, and those that are.
func TestMissing(t *testing.T) {
	ctx := t.Context()
	c, b := faked(nil, "etcd-0/etcd", "node-1/node")
	m := c.Member("node-9")
	verbs := map[string]func() error{
		"Start": func() error { return m.Start(ctx) }, "Stop": func() error { return m.Stop(ctx) },
		"Kill": func() error { return m.Kill(ctx) }, "Pause": func() error { return m.Pause(ctx) },
		"Unpause": func() error { return m.Unpause(ctx) }, "Restart": func() error { return m.Restart(ctx) },
		"Logs":  func() error { return m.Logs(ctx, false, io.Discard) },
		"Exec":  func() error { _, err := m.Exec(ctx, []string{"x"}, nil); return err },
		"State": func() error { _, err := m.State(ctx); return err },
	}
	for name, verb := range verbs {
		err := verb()
		if err == nil || err.Error() != "cluster x has no member \"node-9\"; it has [etcd-0 node-1]" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := c.Component(DNS).Stop(ctx); err == nil || err.Error() != "the cluster has no coredns" {
		t.Errorf("a group of none: %v", err)
	}
	if len(b.log) > 0 {
		t.Errorf("did %v", b.log)
	}
}

func TestLoadImage(t *testing.T) {
	c, b := faked(nil, "etcd-0/etcd", "node-1/node", "node-2/node")
	if err := c.LoadImage(t.Context(), "mine:1"); err != nil || fmt.Sprint(b.log) != "[load mine:1 to [node-1 node-2]]" {
		t.Errorf("%v, %v", b.log, err)
	}
	c, b = faked(nil, "etcd-0/etcd")
	want := "load image mine:1: cluster x has no node"
	if err := c.LoadImage(t.Context(), "mine:1"); err == nil || err.Error() != want || len(b.log) > 0 {
		t.Errorf("%v, %v", b.log, err)
	}
}

// TestStopGoesOn: all parts of a cluster are removed though one of them fails.
func TestStopGoesOn(t *testing.T) {
	broken := errors.New("broken")
	c, b := faked(map[string]error{"close": broken, "release": errors.New("as broken")})
	err := c.Stop(t.Context())
	if !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "stop cluster x: ") ||
		!strings.Contains(err.Error(), "as broken") || fmt.Sprint(b.log) != "[close release]" {
		t.Errorf("%v: %v", b.log, err)
	}
}

// starting is a start at the point where its members are to be started.
func starting(t *testing.T, fails map[string]error, opts ...Option) (*start, *fakeBackend) {
	t.Helper()
	b := &fakeBackend{fails: fails}
	s := &start{cluster: &Cluster{config: configured(t, opts...), backend: b}}
	ids, err := newIdentities(time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	s.layout = &layout{config: s.cluster.config, addressing: nowhere{}, ids: ids}
	if s.plan, err = s.layout.members(); err != nil {
		t.Fatal(err)
	}
	return s, b
}

// TestStartsAPIFirst: members that need the API are started after it; they are listed in the order of Components.
func TestStartsAPIFirst(t *testing.T) {
	s, b := starting(t, nil, WithNodes(2), WithAPIServers(2), WithMetricsServer())
	if err := s.startMembers(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, early := range []string{"etcd-0", "apiserver-0", "apiserver-1", "api-balancer-0"} {
		for _, late := range []string{"scheduler-0", "controller-manager-0", "routes-0", "routes-1", "metrics-server-0"} {
			if b.asked("start "+early) < 0 || b.asked("start "+early) > b.asked("start "+late) {
				t.Errorf("%s was started after %s: %v", early, late, b.log)
			}
		}
	}
	var names []string
	for _, m := range s.cluster.Members() {
		names = append(names, m.Name())
		if m.instance == nil || m.instance.Name() != m.Name() {
			t.Errorf("%s has the instance %v", m.Name(), m.instance)
		}
	}
	want := []string{"etcd-0", "apiserver-0", "apiserver-1", "api-balancer-0", "controller-manager-0", "scheduler-0",
		"routes-0", "routes-1", "node-1", "node-2", "cloud-provider-0", "metrics-server-0"}
	if !slices.Equal(names, want) {
		t.Errorf("members %v, want %v", names, want)
	}
	if server := s.cluster.Member("apiserver-1"); len(server.companions) != 1 || server.companions[0].name != "routes-1" {
		t.Errorf("companions of apiserver-1: %v", server.companions)
	}
}

// TestStartFails: a member that can't be started fails the start, and those that depend on it are not started.
func TestStartFails(t *testing.T) {
	broken := errors.New("no room")
	for member, never := range map[string]string{"apiserver-0": "scheduler-0", "node-2": "", "scheduler-0": ""} {
		s, b := starting(t, map[string]error{"start " + member: broken}, WithNodes(2))
		if err := s.startMembers(t.Context()); !errors.Is(err, broken) {
			t.Errorf("%s: %v", member, err)
		}
		if never != "" && b.asked("start "+never) >= 0 {
			t.Errorf("%s was started without %s", never, member)
		}
		if len(s.cluster.members) > 0 {
			t.Errorf("%s: a cluster that did not start has members", member)
		}
	}
}
