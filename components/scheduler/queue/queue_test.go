package queue

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

func named(name, spec string) *snapshot.Pod {
	return snapshot.NewPod(schedulertest.Pod(name, spec, nil))
}

// take pops a pod without waiting; it fails the test if there is none.
func take(t *testing.T, q *Queue) *Item {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	i := q.next()
	if i == nil {
		t.Fatal("no pod to try")
	}
	return i
}

func TestOwnChanges(t *testing.T) {
	tolerating := func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}} }
	gates := func(names ...string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			for _, name := range names {
				p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, v1.PodSchedulingGate{Name: name})
			}
		}
	}
	for name, c := range map[string]struct {
		before, after       string
		changeOld, changeIt func(*v1.Pod)
		want                Kind
	}{
		"nothing":              {"cpu=1 app=x", "cpu=1 app=x", nil, nil, 0},
		"annotations":          {"", "", nil, func(p *v1.Pod) { p.Annotations = map[string]string{"a": "b"} }, 0},
		"a label":              {"app=x", "app=y", nil, nil, OwnLabels},
		"a further label":      {"app=x", "app=x v=1", nil, nil, OwnLabels},
		"a toleration":         {"", "", nil, tolerating, OwnTolerations},
		"less cpu":             {"cpu=2", "cpu=1", nil, nil, OwnRequests},
		"more cpu":             {"cpu=1", "cpu=2", nil, nil, 0},
		"less of one, more of": {"cpu=1 memory=2Gi", "cpu=2 memory=1Gi", nil, nil, OwnRequests},
		"less ephemeral":       {"ephemeral-storage=2", "ephemeral-storage=1", nil, nil, OwnRequests},
		"an extended resource": {"example.com/gpu=2", "example.com/gpu=1", nil, nil, OwnRequests},
		"without an extended":  {"example.com/gpu=2", "", nil, nil, OwnRequests},
		"one gate of two":      {"", "", gates("a", "b"), gates("b"), OwnGates},
		"a gate replaced":      {"", "", gates("a"), gates("b"), 0},
		"labels and gates":     {"app=x", "app=y", gates("a"), nil, OwnLabels | OwnGates},
		"labels and a request": {"app=x cpu=2", "app=y cpu=1", nil, nil, OwnLabels | OwnRequests},
	} {
		old := snapshot.NewPod(schedulertest.Pod("p", c.before, c.changeOld))
		now := snapshot.NewPod(schedulertest.Pod("p", c.after, c.changeIt))
		if got := ownChanges(old, now); got != c.want {
			t.Errorf("%s: %b, want %b", name, got, c.want)
		}
	}
}

// TestKindNames: every kind has upstream's name, which the metric scheduler_queue_incoming_pods_total carries.
func TestKindNames(t *testing.T) {
	for kind, want := range map[Kind]string{
		NodeAdded: "NodeAdd", NodeRemoved: "NodeDelete", NodeAllocatable: "NodeAllocatableUpdate",
		NodeLabels: "NodeLabelUpdate", NodeTaints: "NodeTaintUpdate", NodeConditions: "NodeConditionUpdate",
		NodeAnnotations: "NodeAnnotationUpdate", NodeFeatures: "NodeDeclaredFeatureUpdate",
		PodAdded: "AssignedPodAdd", PodRemoved: "AssignedPodDelete",
		OwnGates: "PodSchedulingGatesEliminated", OwnTolerations: "PodTolerationUpdate",
		VolumeAdded: "PersistentVolumeAdd", ClaimUpdated: "PersistentVolumeClaimUpdate",
		StorageClassAdded: "storage.k8s.io/StorageClassAdd", CSINodeUpdated: "storage.k8s.io/CSINodeUpdate",
		CSIDriverUpdated: "storage.k8s.io/CSIDriverUpdate", AttachmentRemoved: "storage.k8s.io/VolumeAttachmentDelete",
		Watched: "Watched", 0: "None",
	} {
		if got := kind.String(); got != want {
			t.Errorf("%b is %s, want %s", kind, got, want)
		}
	}
	if Watched != 1<<(len(kindNames)-1) {
		t.Errorf("%d names for kinds up to %b", len(kindNames), Watched)
	}
	if got := (Event{Kind: Watched, Resource: "foos.v1.example.com"}).Cause(); got != "foos.v1.example.com" {
		t.Errorf("a watched resource's event is %s", got)
	}
}

func TestHints(t *testing.T) {
	hints := Hints{
		"A": {{Kinds: NodeAdded}, {Kinds: PodRemoved | PodShrunk}},
		"B": {{Kinds: NodeLabels, Helps: func(p *snapshot.Pod, e Event) bool { return e.Node.Name == p.Obj.Name }}},
	}
	p := named("n1", "")
	on := func(kind Kind, node string) Event { return Event{Kind: kind, Node: schedulertest.Node(node, "")} }
	for name, c := range map[string]struct {
		plugins []string
		e       Event
		want    bool
	}{
		"a kind of the plug-in":    {[]string{"A"}, on(NodeAdded, "x"), true},
		"one of several kinds":     {[]string{"A"}, on(NodeTaints|PodShrunk, "x"), true},
		"a kind of another one":    {[]string{"A"}, on(NodeLabels, "n1"), false},
		"a hint that says yes":     {[]string{"B"}, on(NodeLabels, "n1"), true},
		"a hint that says no":      {[]string{"B"}, on(NodeLabels, "n2"), false},
		"either of two":            {[]string{"B", "A"}, on(NodeAdded, "n2"), true},
		"refused by nothing":       {nil, on(PodLabels, "x"), true},
		"refused by an unknown":    {[]string{"C"}, on(NodeAdded, "x"), false},
		"a hint not for this kind": {[]string{"B"}, on(NodeAdded, "n1"), false},
	} {
		if got := hints.Helps(p, c.plugins, c.e); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got, want := hints.Events("A"), []string{"NodeAdd", "AssignedPodDelete",
		"AssignedPodScaleDown"}; !slices.Equal(got, want) {
		t.Errorf("events of A: %v, want %v", got, want)
	}
	if got := hints.Events("C"); got != nil {
		t.Errorf("events of C: %v", got)
	}
	if !hints.Wants(NodeTaints|NodeLabels) || hints.Wants(NodeTaints) {
		t.Error("Wants is not of the kinds that are registered")
	}
}

// TestIncoming: each move is counted by upstream's queue names and events.
func TestIncoming(t *testing.T) {
	var moves []string
	s := newScript()
	s.queue.config.Incoming = func(queue, cause string) { moves = append(moves, queue+" "+cause) }
	run := func(want string, do func()) {
		t.Helper()
		moves = nil
		do()
		if got := strings.Join(moves, ", "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	q := s.queue
	var i *Item
	run("active PodAdd", func() { q.Add(named("p", "")) })
	run("", func() { i = take(t, q) })
	run("unschedulable ScheduleAttemptFailure", func() { q.Requeue(i, []string{"Fit"}, false) })
	run("", func() { q.Move(Event{Kind: NodeTaints}) })
	run("backoff NodeAdd", func() { q.Move(Event{Kind: NodeAdded}) })
	run("active BackoffComplete", func() { s.clock.Step(time.Second); q.flush() })
	run("backoff ScheduleAttemptFailure", func() { q.Retry(take(t, q)) })
	run("active ForceActivate", func() { q.Activate([]types.UID{"p", "unknown"}) })
	run("unschedulable ScheduleAttemptFailure", func() { q.Requeue(take(t, q), []string{"Fit"}, false) })
	run("active UnschedulableTimeout", func() { s.clock.Step(6 * time.Minute); q.flush() })
	run("gated PodAdd", func() { q.Add(snapshot.NewPod(pod([]string{"g", "gated"}))) })
	run("active PodSchedulingGatesEliminated", func() { q.Add(named("g", "")) })
}

// TestActivate: an activated pod is tried next wherever it is; in flight, as soon as it comes back.
func TestActivate(t *testing.T) {
	for name, back := range map[string]func(*Queue, *Item){
		"refused":      func(q *Queue, i *Item) { q.Requeue(i, []string{"Fit"}, false) },
		"met an error": func(q *Queue, i *Item) { q.Retry(i) },
	} {
		q := newScript().queue
		q.Add(named("p", ""))
		i := take(t, q)
		q.Activate([]types.UID{"p"})
		back(q, i)
		if again := take(t, q); again != i || again.Attempts != 2 {
			t.Errorf("%s in flight: %+v", name, again)
		}
		back(q, i)
		if active, _, _, _ := q.Pending(); active != 0 {
			t.Errorf("%s: one activation counts twice", name)
		}
		q.Activate([]types.UID{"p"})
		if take(t, q) != i {
			t.Errorf("%s afterwards", name)
		}
	}
	q := newScript().queue
	q.Add(snapshot.NewPod(pod([]string{"g", "gated"})))
	q.Activate([]types.UID{"g"})
	if active, _, _, gated := q.Pending(); active != 0 || gated != 1 {
		t.Errorf("a gated pod was activated: %d active, %d gated", active, gated)
	}
}

// TestPendingSkipsBackOff: a pod that waits for what a plug-in has begun is tried as soon as the event comes.
func TestPendingSkipsBackOff(t *testing.T) {
	for _, pending := range []bool{true, false} {
		q := newScript().queue
		q.Add(named("p", ""))
		q.Requeue(take(t, q), []string{"Fit"}, pending)
		q.Move(Event{Kind: NodeAdded})
		active, backoff, _, _ := q.Pending()
		if pending && active != 1 || !pending && backoff != 1 {
			t.Errorf("pending %v: %d active, %d backing off", pending, active, backoff)
		}
	}
}

// TestSinceLeavesGatesOut: the time that scheduling took begins when the pod may be tried (KEP-3521).
func TestSinceLeavesGatesOut(t *testing.T) {
	s := newScript()
	s.queue.Add(snapshot.NewPod(pod([]string{"p", "gated"})))
	s.clock.Step(time.Hour)
	s.queue.Add(named("p", ""))
	opened := s.clock.Now()
	i := take(t, s.queue)
	if !i.Since.Equal(opened) {
		t.Errorf("since %v, want %v", i.Since, opened)
	}
	s.clock.Step(time.Minute)
	s.queue.Retry(i)
	s.clock.Step(time.Minute)
	if i := take(t, s.queue); !i.Since.Equal(opened) {
		t.Errorf("a further try begins at %v", i.Since)
	}
}

// TestStates: Pods and Pending tell where each pod is.
func TestStates(t *testing.T) {
	s := newScript()
	q := s.queue
	for _, name := range []string{"flies", "refused", "errs", "waits"} {
		q.Add(named(name, ""))
	}
	flights := map[string]*Item{}
	for range 4 {
		i := take(t, q)
		flights[i.Pod.Obj.Name] = i
	}
	q.Requeue(flights["refused"], []string{"Fit"}, false)
	q.Retry(flights["errs"])
	q.Requeue(flights["waits"], []string{"Labels"}, false)
	q.Move(Event{Kind: NodeLabels, Node: schedulertest.Node("n", "for=waits")})
	q.Add(named("active", ""))
	q.Add(snapshot.NewPod(pod([]string{"gated", "gated"})))
	states := map[string]string{}
	for _, p := range q.Pods() {
		states[p.Name] = strings.TrimSpace(fmt.Sprint(p.State, " ", p.Attempts, " ", p.GatedBy))
	}
	want := map[string]string{"flies": "inFlight 1", "refused": "unschedulable 1", "errs": "backoff 1",
		"waits": "backoff 1", "active": "active 0", "gated": "gated 0 Gates"}
	if !reflect.DeepEqual(states, want) {
		t.Errorf("got %v, want %v", states, want)
	}
	active, backoff, unschedulable, gated := q.Pending()
	if got, want := []int{active, backoff, unschedulable, gated}, []int{1, 2, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("pending %v, want %v", got, want)
	}
	if q.Deleted(flights["flies"]) {
		t.Error("a pod in flight is taken for deleted")
	}
	if q.Delete("flies"); !q.Deleted(flights["flies"]) {
		t.Error("a deleted pod in flight is not told")
	}
}

// TestOrder: a queue sort plug-in decides which pod is tried first.
func TestOrder(t *testing.T) {
	q := New(Config{
		Clock: clocktesting.NewFakeClock(time.Unix(0, 0)),
		Gate:  func(*snapshot.Pod) (string, string) { return "", "" },
		Less:  func(a, b *Item) bool { return a.Pod.Obj.Name > b.Pod.Obj.Name },
	})
	for _, name := range []string{"b", "d", "a", "c"} {
		q.Add(named(name, "priority="+fmt.Sprint(len(name))))
	}
	var order string
	for range 4 {
		order += take(t, q).Pod.Obj.Name
	}
	if order != "dcba" {
		t.Errorf("order %s", order)
	}
}

// TestNextGate: a pod that one plug-in lets go and another one keeps waits for what helps against that one.
func TestNextGate(t *testing.T) {
	claims := false
	q := New(Config{
		Clock: clocktesting.NewFakeClock(time.Unix(0, 0)),
		Hints: Hints{"Gates": {{Kinds: OwnGates}}, "Claims": {{Kinds: ResourceClaimAdded}}},
		Gate: func(p *snapshot.Pod) (plugin, reason string) {
			switch {
			case len(p.Obj.Spec.SchedulingGates) > 0:
				return "Gates", "it has gates"
			case !claims:
				return "Claims", "there is no claim"
			}
			return "", ""
		},
	})
	says := func(state, plugin, reason string) {
		t.Helper()
		if got := q.Pods()[0]; got.State != state || got.GatedBy != plugin || got.GateReason != reason {
			t.Errorf("it is %+v, want %s by %q: %q", got, state, plugin, reason)
		}
	}
	withGate := named("p", "")
	withGate.Obj.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/a"}}
	q.Add(withGate)
	says("gated", "Gates", "it has gates")
	q.Add(named("p", ""))
	says("gated", "Claims", "there is no claim")
	claims = true
	q.Move(Event{Kind: ResourceClaimAdded})
	says("active", "", "")
}

// model holds what is done to a queue against what the queue then says.
type model struct {
	*testing.T
	s       *script
	r       *rand.Rand
	flights []*Item
	gone    map[*Item]bool
	alive   map[types.UID]bool
}

// TestInvariants does random things to a queue: every pod is in one place, of which the counts agree with the
// states, no pod is lost, and events are kept for the pods in flight only.
func TestInvariants(t *testing.T) {
	for seed := range uint64(60) {
		m := &model{T: t, s: newScript(), r: rand.New(rand.NewPCG(seed, 3)), gone: map[*Item]bool{},
			alive: map[types.UID]bool{}}
		for range 400 {
			m.step()
			m.verify(seed)
		}
		m.drain(seed)
	}
}

func (m *model) step() {
	q := m.s.queue
	name := fmt.Sprint("p", m.r.IntN(8))
	switch m.r.IntN(9) {
	case 0, 1:
		words := []string{name, fmt.Sprintf("cpu=%d", 1+m.r.IntN(3)), fmt.Sprintf("priority=%d", m.r.IntN(3))}
		if m.r.IntN(4) == 0 {
			words = append(words, "gated")
		}
		q.Add(snapshot.NewPod(pod(words)))
		m.alive[types.UID(name)] = true
	case 2:
		q.mu.Lock()
		i := q.items[types.UID(name)]
		q.mu.Unlock()
		q.Delete(types.UID(name))
		delete(m.alive, types.UID(name))
		if slices.Contains(m.flights, i) {
			m.gone[i] = true
		}
	case 3, 4:
		q.mu.Lock()
		i := q.next()
		q.mu.Unlock()
		if i != nil {
			m.flights = append(m.flights, i)
		}
	case 5:
		q.Move(event([]string{[]string{"NodeAdd", "NodeLabelUpdate", "AssignedPodDelete"}[m.r.IntN(3)], "for=" + name}))
	case 6:
		m.s.clock.Step(time.Duration(m.r.IntN(4000)) * time.Millisecond)
	default:
		m.land()
	}
}

// land ends the try of a pod in flight.
func (m *model) land() {
	if len(m.flights) == 0 {
		return
	}
	at := m.r.IntN(len(m.flights))
	i := m.flights[at]
	m.flights = slices.Delete(m.flights, at, at+1)
	switch m.r.IntN(4) {
	case 0:
		m.s.queue.Retry(i)
	case 1:
		m.s.queue.Done(i)
		if !m.gone[i] {
			delete(m.alive, i.Pod.UID())
		}
	default:
		m.s.queue.Requeue(i, [][]string{{"Fit"}, {"Labels"}, {"Fit", "Labels"}, nil}[m.r.IntN(4)], m.r.IntN(5) == 0)
	}
	delete(m.gone, i)
}

func (m *model) verify(seed uint64) {
	m.Helper()
	q := m.s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) != len(m.alive) {
		m.Fatalf("seed %d: %d pods in the queue, want %d", seed, len(q.items), len(m.alive))
	}
	counts := map[state]int{}
	for uid, i := range q.items {
		counts[i.state]++
		if !m.alive[uid] || i.deleted {
			m.Fatalf("seed %d: %s is still there", seed, uid)
		}
	}
	listed := map[*Item]bool{}
	for _, items := range q.waiting {
		for i := range items {
			listed[i] = true
		}
	}
	got := []int{q.active.len(), q.backoff.len(), q.failing.len(), q.parked, q.gated, len(listed), len(q.flights)}
	want := []int{counts[active], counts[backingOff], counts[failing], counts[unschedulable], counts[gated],
		counts[unschedulable] + counts[gated], counts[inFlight] + len(m.gone)}
	if !slices.Equal(got, want) {
		m.Fatalf("seed %d: queues hold %v, states say %v", seed, got, want)
	}
	if len(q.flights) == 0 && len(q.events) > 0 {
		m.Fatalf("seed %d: %d events are kept for nothing", seed, len(q.events))
	}
	for _, h := range []*heap{&q.active, &q.backoff, &q.failing} {
		for at, i := range h.items {
			if i.at != at || at > 0 && h.less(i, h.items[(at-1)/2]) {
				m.Fatalf("seed %d: %s is at %d in a heap that says %d", seed, i.Pod.UID(), at, i.at)
			}
		}
	}
}

// drain sees every pod tried that no gate holds, as time passes: none is forgotten.
func (m *model) drain(seed uint64) {
	q := m.s.queue
	for len(m.flights) > 0 {
		m.land()
	}
	for uid := range q.items {
		q.Add(named(string(uid), "cpu=1"))
	}
	m.s.clock.Step(time.Hour)
	m.s.queue.mu.Lock()
	q.flush()
	m.s.queue.mu.Unlock()
	for range len(q.items) {
		m.s.clock.Step(time.Hour)
		i := take(m.T, q)
		q.Done(i)
		delete(m.alive, i.Pod.UID())
	}
	if len(m.alive) != 0 {
		m.Fatalf("seed %d: %v were never tried", seed, m.alive)
	}
}
