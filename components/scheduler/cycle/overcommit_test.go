package cycle_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// placements is what a test itself knows of a cluster: API objects, and where the scheduler put each pod.
type placements struct {
	nodes map[string]*v1.Node
	on    map[types.UID]string
	pods  map[types.UID]*v1.Pod
}

// check holds the requests of the pods on each node against what the node has, and their host ports against each other.
func (l *placements) check() error {
	for name, n := range l.nodes {
		var cpu, memory, pods int64
		ports := map[int32]types.UID{}
		for uid, on := range l.on {
			if on != name {
				continue
			}
			c := l.pods[uid].Spec.Containers[0]
			cpu, memory, pods = cpu+c.Resources.Requests.Cpu().MilliValue(), memory+c.Resources.Requests.Memory().Value(), pods+1
			for _, port := range c.Ports {
				if other, taken := ports[port.HostPort]; taken {
					return fmt.Errorf("port %d of %s is both %s's and %s's", port.HostPort, name, uid, other)
				}
				ports[port.HostPort] = uid
			}
		}
		has := n.Status.Allocatable
		if cpu > has.Cpu().MilliValue() || memory > has.Memory().Value() || pods > has.Pods().Value() {
			return fmt.Errorf("%s has %v, and %d pods that ask for %dm and %d bytes", name, has, pods, cpu, memory)
		}
	}
	return nil
}

// TestNoOvercommit does random things to a cluster: pods are placed, confirmed, deleted, fail to be bound, preempt
// others; nodes come and go with their pods. Whatever came before, no node gets more than it has.
func TestNoOvercommit(t *testing.T) {
	placed, preempted := 0, 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 5))
		l := &placements{nodes: map[string]*v1.Node{}, on: map[types.UID]string{}, pods: map[types.UID]*v1.Pod{}}
		s, f := snapshot.New(), profile(t)
		remove := func(uid types.UID) {
			delete(l.on, uid)
			delete(l.pods, uid)
		}
		for step := range 300 {
			node := fmt.Sprint("n", r.IntN(6))
			switch r.IntN(12) {
			case 0, 1:
				if l.nodes[node] == nil {
					l.nodes[node] = schedulertest.Node(node, fmt.Sprintf("cpu=%d memory=%dGi pods=%d", 1+r.IntN(4), 1+r.IntN(4),
						1+r.IntN(6)))
					s.SetNode(l.nodes[node])
				}
			case 2:
				s.RemoveNode(node)
				delete(l.nodes, node)
				for uid, on := range l.on {
					if on == node {
						s.RemovePod(uid)
						remove(uid)
					}
				}
			case 3, 4:
				for uid := range l.on {
					s.RemovePod(uid)
					remove(uid)
					break
				}
			case 5: // the API server confirms a binding
				for uid, on := range l.on {
					bound := l.pods[uid].DeepCopy()
					bound.Spec.NodeName = on
					s.SetPod(snapshot.NewPod(bound))
					break
				}
			default:
				p := pod(r, step)
				d := f.Schedule(s, cycle.Request{Pod: snapshot.NewPod(p), Seed: r.Uint64()})
				if d.PostFilterResult != nil {
					for _, v := range d.PostFilterResult.Victims {
						if v.Priority >= *p.Spec.Priority {
							t.Fatalf("seed %d: %s of priority %d was to make room for %d", seed, v.UID(), v.Priority, *p.Spec.Priority)
						}
						preempted++
						s.RemovePod(v.UID())
						remove(v.UID())
					}
				}
				if d.Node == "" {
					continue
				}
				placed++
				s.Assume(snapshot.NewPod(p), d.Node)
				if r.IntN(6) == 0 { // its binding fails
					if !s.Forget(p.UID) {
						t.Fatalf("seed %d: an assumed pod can't be forgotten", seed)
					}
					continue
				}
				l.on[p.UID], l.pods[p.UID] = d.Node, p
			}
			if err := l.check(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
	}
	if placed < 1000 || preempted < 50 {
		t.Errorf("only %d pods were placed, %d preempted", placed, preempted)
	}
}

// TestVictimsSuffice: once its victims are gone, the nominated node takes the pod, and no victim could have stayed.
func TestVictimsSuffice(t *testing.T) {
	tried := 0
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 6))
		s := snapshot.New()
		for i := range 1 + r.IntN(5) {
			s.SetNode(node(r, i))
		}
		for i := range 25 {
			p := snapshot.NewPod(pod(r, i))
			if d := profile(t).Schedule(s, cycle.Request{Pod: p, Seed: r.Uint64()}); d.Node != "" {
				s.Assume(p, d.Node)
			}
		}
		important := pod(r, 99)
		*important.Spec.Priority = 9
		p := snapshot.NewPod(important)
		d := profile(t).Schedule(s, cycle.Request{Pod: p})
		if d.PostFilterResult == nil || d.PostFilterResult.Node == "" {
			continue
		}
		tried++
		victims := d.PostFilterResult.Victims
		for _, v := range victims {
			s.RemovePod(v.UID())
		}
		fits := func() bool {
			for _, filter := range profile(t).Filters {
				if _, refused := schedulertest.Check(filter, important, s)[d.PostFilterResult.Node]; refused {
					return false
				}
			}
			return true
		}
		if !fits() {
			t.Fatalf("seed %d: %d victims are not enough", seed, len(victims))
		}
		for _, v := range victims {
			s.Assume(v, d.PostFilterResult.Node)
			if fits() {
				t.Fatalf("seed %d: %s need not have gone", seed, v.UID())
			}
			s.RemovePod(v.UID())
		}
	}
	if tried < 20 {
		t.Errorf("only %d clusters needed victims", tried)
	}
}

// TestTies: of nodes with equal scores, the seed decides, and in the end each is chosen.
func TestTies(t *testing.T) {
	s := schedulertest.Snapshot(schedulertest.Node("a", "cpu=4"), schedulertest.Node("b", "cpu=4"),
		schedulertest.Node("c", "cpu=4"), schedulertest.Node("less", "cpu=2"))
	p := snapshot.NewPod(schedulertest.Pod("p", "cpu=1", nil))
	chosen := map[string]int{}
	const seeds = 300
	for seed := range uint64(seeds) {
		d := profile(t).Schedule(s, cycle.Request{Pod: p, Seed: seed})
		if again := profile(t).Schedule(s, cycle.Request{Pod: p, Seed: seed}); again.Node != d.Node {
			t.Fatalf("seed %d chose %s, then %s", seed, d.Node, again.Node)
		}
		chosen[d.Node]++
	}
	for _, name := range []string{"a", "b", "c"} {
		if n := chosen[name]; n < seeds/3-40 || n > seeds/3+40 {
			t.Errorf("%s was chosen %d times: %v", name, n, chosen)
		}
	}
	if chosen["less"] > 0 {
		t.Errorf("the worse node was chosen: %v", chosen)
	}
}
