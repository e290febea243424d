package mixed

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"quintet.dev/quintet/cluster/internal/backend"
)

// side is a back end that records what it is asked.
type side struct {
	backend.Backend
	name  string
	fails bool
	calls *[]string
}

func (s *side) note(call string, names ...string) error {
	*s.calls = append(*s.calls, strings.Join(append([]string{s.name, call}, names...), " "))
	if s.fails {
		return errors.New(s.name + " failed")
	}
	return nil
}

func (s *side) Prepare(_ context.Context, members []backend.Placement) (backend.Addressing, error) {
	var names []string
	for _, m := range members {
		names = append(names, m.Name)
	}
	return at{name: s.name}, s.note("prepare", names...)
}

func (s *side) Add(_ context.Context, p backend.Placement) (backend.Addressing, error) {
	return at{name: s.name}, s.note("add", p.Name)
}

func (s *side) Start(_ context.Context, m backend.Member) (backend.Instance, error) {
	return &one{name: m.Name}, s.note("start", m.Name)
}

func (s *side) Load(_ context.Context, _ string, machines []backend.Instance) error {
	return s.note("load", namesOf(machines)...)
}

func (s *side) LoadArchive(_ context.Context, _ string, machines []backend.Instance) error {
	return s.note("load archive", namesOf(machines)...)
}

func (s *side) Remove(_ context.Context, i backend.Instance) error { return s.note("remove", i.Name()) }
func (s *side) Close(context.Context) error                        { return s.note("close") }
func (s *side) Release() error                                     { return s.note("release") }

func (s *side) HostAddress(context.Context) (string, error) {
	return "10.213.0.1", s.note("host address")
}

// at is the addressing of a side; what it says begins with the side's name.
type at struct {
	backend.Addressing
	name string
}

func (a at) Host(member string) string  { return a.name + "/" + member }
func (a at) Dir(member string) string   { return a.name + "/" + member }
func (a at) IPs(member string) []string { return []string{a.name + "/" + member} }
func (a at) PublicHost() string         { return a.name }

type one struct {
	backend.Instance
	name string
}

func (o *one) Name() string { return o.name }

func namesOf(instances []backend.Instance) (names []string) {
	for _, i := range instances {
		names = append(names, i.Name())
	}
	return names
}

// pair is a back end over two sides, and what they are asked; host is the address that the inner one was made with.
func pair(reached bool) (m *Mixed, outer, inner *side, calls *[]string, host *string) {
	calls, host = new([]string), new(string)
	outer, inner = &side{name: "outer", calls: calls}, &side{name: "inner", calls: calls}
	m = New(Config{Outer: outer, Reached: reached, NewInner: func(address string) backend.Backend {
		*host = address
		return inner
	}})
	return m, outer, inner, calls, host
}

var members = []backend.Placement{{Name: "etcd-0", InProcess: true}, {Name: "node-1"}, {Name: "api-0", InProcess: true}}

// TestPlaces: every member is asked for on its own side, and what is said of its address is that side's.
func TestPlaces(t *testing.T) {
	for reached, want := range map[bool][]string{
		false: {"outer prepare node-1", "inner prepare etcd-0 api-0"},
		true:  {"outer prepare node-1", "outer host address", "inner prepare etcd-0 api-0"},
	} {
		m, _, _, calls, host := pair(reached)
		where, err := m.Prepare(t.Context(), members)
		if err != nil || !slices.Equal(*calls, want) || (*host == "10.213.0.1") != reached {
			t.Errorf("reached %v: %q, made at %q, %v", reached, *calls, *host, err)
		}
		for member, want := range map[string]string{"etcd-0": "inner", "api-0": "inner", "node-1": "outer"} {
			if where.Host(member) != want+"/"+member || where.Dir(member) != want+"/"+member ||
				where.IPs(member)[0] != want+"/"+member {
				t.Errorf("%s is at %s", member, where.Host(member))
			}
		}
		if where.PublicHost() != "outer" {
			t.Errorf("public host %s", where.PublicHost())
		}
	}
}

// TestVerbs: they go to the side that a member is on, also of members that were added later.
func TestVerbs(t *testing.T) {
	m, _, _, calls, _ := pair(false)
	if _, err := m.Prepare(t.Context(), members); err != nil {
		t.Fatal(err)
	}
	for _, p := range []backend.Placement{{Name: "api-1", InProcess: true}, {Name: "node-2"}} {
		where, err := m.Add(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if got := where.Host(p.Name); strings.HasPrefix(got, "inner") != p.InProcess {
			t.Errorf("%s is at %s", p.Name, got)
		}
	}
	*calls = nil
	var all []backend.Instance
	for _, name := range []string{"api-1", "node-1", "etcd-0", "node-2"} {
		i, err := m.Start(t.Context(), backend.Member{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, i)
	}
	_ = m.Load(t.Context(), "image", all)
	_ = m.LoadArchive(t.Context(), "file", all)
	_ = m.Remove(t.Context(), all[0])
	_ = m.Remove(t.Context(), all[1])
	if want := []string{"inner start api-1", "outer start node-1", "inner start etcd-0", "outer start node-2",
		"outer load node-1 node-2", "outer load archive node-1 node-2", "inner remove api-1", "outer remove node-1",
	}; !slices.Equal(*calls, want) {
		t.Errorf("%q", *calls)
	}
}

// TestEnds: both sides are closed whatever fails, and members in containers outlive a release.
func TestEnds(t *testing.T) {
	end := func(m *Mixed) error { return m.Close(context.Background()) }
	for name, test := range map[string]struct {
		prepared bool
		end      func(*Mixed) error
		want     []string
	}{
		"close":         {true, end, []string{"inner close", "outer close"}},
		"never started": {false, end, []string{"outer close"}},
		"release":       {true, (*Mixed).Release, []string{"inner close", "outer release"}},
	} {
		m, outer, inner, calls, _ := pair(false)
		if test.prepared {
			if _, err := m.Prepare(t.Context(), members); err != nil {
				t.Fatal(err)
			}
		}
		*calls, outer.fails, inner.fails = nil, !test.prepared, test.prepared
		err := test.end(m)
		slices.Sort(*calls)
		if err == nil || !slices.Equal(*calls, test.want) {
			t.Errorf("%s: %q, %v", name, *calls, err)
		}
	}
}

// TestFailures: what fails outside is told, and nothing is made in this process.
func TestFailures(t *testing.T) {
	m, outer, _, calls, _ := pair(true)
	outer.fails = true
	if _, err := m.Prepare(t.Context(), members); err == nil || len(*calls) != 1 {
		t.Errorf("%q, %v", *calls, err)
	}
	if _, err := m.Add(t.Context(), backend.Placement{Name: "node-2"}); err == nil {
		t.Error("a member is added where there is no room")
	}
	if _, err := m.Attachment(t.Context()); !errors.Is(err, backend.ErrUnsupported) {
		t.Errorf("a back end that takes no nodes: %v", err)
	}
	if joined, err := m.Joined(t.Context()); joined != nil || err != nil {
		t.Errorf("joined %v, %v", joined, err)
	}
}
