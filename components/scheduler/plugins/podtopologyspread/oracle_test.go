package podtopologyspread

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// naive evaluates the documentation of topology spread constraints node by node and pod by pod, on API objects alone.
type naive struct {
	nodes []*v1.Node
	pods  []*v1.Pod
}

// counts tells whether a node's pods count: it has the keys of all constraints and passes the policies of this one.
func (w *naive) counts(p *v1.Pod, c *v1.TopologySpreadConstraint, n *v1.Node) bool {
	for i := range p.Spec.TopologySpreadConstraints {
		if _, ok := n.Labels[p.Spec.TopologySpreadConstraints[i].TopologyKey]; !ok {
			return false
		}
	}
	if c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == v1.NodeInclusionPolicyHonor {
		for key, value := range p.Spec.NodeSelector {
			if n.Labels[key] != value {
				return false
			}
		}
	}
	if c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor {
		return len(n.Spec.Taints) == 0 // no pod here tolerates any
	}
	return true
}

func (w *naive) refuses(p *v1.Pod, n *v1.Node) string {
	for i := range p.Spec.TopologySpreadConstraints {
		c := &p.Spec.TopologySpreadConstraints[i]
		own, ok := n.Labels[c.TopologyKey]
		if !ok {
			return "!" + reason + " (missing required label)"
		}
		selector, _ := metav1.LabelSelectorAsSelector(c.LabelSelector)
		domains := map[string]int{}
		for _, n := range w.nodes {
			if !w.counts(p, c, n) {
				continue
			}
			domain := n.Labels[c.TopologyKey]
			domains[domain] += 0
			for _, other := range w.pods {
				if other.Spec.NodeName == n.Name && other.Namespace == p.Namespace && other.DeletionTimestamp == nil &&
					selector.Matches(labels.Set(other.Labels)) {
					domains[domain]++
				}
			}
		}
		least, first := 0, true
		for _, pods := range domains {
			if first || pods < least {
				least, first = pods, false
			}
		}
		if c.MinDomains != nil && len(domains) < int(*c.MinDomains) {
			least = 0
		}
		would := domains[own]
		if selector.Matches(labels.Set(p.Labels)) {
			would++
		}
		if would-least > int(c.MaxSkew) {
			return reason
		}
	}
	return ""
}

// TestAgainstDocumentation compares the plug-in with the naive evaluation on random clusters.
func TestAgainstDocumentation(t *testing.T) {
	said := map[string]int{}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 12))
		w, s := world(r)
		p := schedulertest.Pod("new", fmt.Sprintf("app=%d", r.IntN(2)), func(p *v1.Pod) {
			for range 1 + r.IntN(2) {
				p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, constraintOf(r))
			}
			if r.IntN(3) == 0 {
				p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
			}
		})
		want := map[string]string{}
		for _, n := range w.nodes {
			if why := w.refuses(p, n); why != "" {
				want[n.Name] = why
				said[why]++
			}
		}
		if got := schedulertest.Check(System(), p, s); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: got %v, want %v\npod %+v", seed, got, want, p.Spec)
		}
	}
	if len(said) != 2 {
		t.Errorf("the clusters show only %v", said)
	}
}

func world(r *rand.Rand) (*naive, *snapshot.Snapshot) {
	w, s := &naive{}, snapshot.New()
	for i := range 1 + r.IntN(7) {
		spec := ""
		if r.IntN(6) > 0 {
			spec += fmt.Sprintf(" zone=%d", r.IntN(3))
		}
		if r.IntN(3) > 0 {
			spec += " disk=ssd"
		}
		if r.IntN(5) == 0 {
			spec += " taint=NoSchedule"
		}
		n := schedulertest.Node(fmt.Sprint("n", i), spec)
		w.nodes = append(w.nodes, n)
		s.SetNode(n)
	}
	for i := range r.IntN(12) {
		p := schedulertest.Pod(fmt.Sprint("p", i), fmt.Sprintf("app=%d node=n%d", r.IntN(2), r.IntN(7)), func(p *v1.Pod) {
			switch r.IntN(6) {
			case 0:
				p.Namespace = "other"
			case 1:
				p.DeletionTimestamp = &metav1.Time{}
			}
		})
		w.pods = append(w.pods, p)
		s.SetPod(snapshot.NewPod(p))
	}
	if len(w.pods) > 1 {
		s.RemovePod(w.pods[0].UID)
		w.pods = w.pods[1:]
	}
	return w, s
}

func constraintOf(r *rand.Rand) v1.TopologySpreadConstraint {
	c := v1.TopologySpreadConstraint{
		TopologyKey: []string{"zone", v1.LabelHostname}[r.IntN(2)], MaxSkew: 1 + int32(r.IntN(2)),
		WhenUnsatisfiable: v1.DoNotSchedule,
		LabelSelector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(r.IntN(2))}},
	}
	policies := []*v1.NodeInclusionPolicy{nil, ptr.To(v1.NodeInclusionPolicyHonor), ptr.To(v1.NodeInclusionPolicyIgnore)}
	c.NodeAffinityPolicy, c.NodeTaintsPolicy = policies[r.IntN(3)], policies[r.IntN(3)]
	if r.IntN(4) == 0 {
		c.MinDomains = ptr.To(1 + int32(r.IntN(4)))
	}
	return c
}

// TestDefaultConstraints: those of a List bind the pods of a service or controller, and no others.
func TestDefaultConstraints(t *testing.T) {
	list := &Plugin{Defaults: []v1.TopologySpreadConstraint{
		{TopologyKey: "zone", MaxSkew: 1, WhenUnsatisfiable: v1.DoNotSchedule}}}
	s := schedulertest.Snapshot(schedulertest.Node("a", "zone=a"), schedulertest.Node("b", "zone=b"),
		schedulertest.Node("none", ""), schedulertest.Pod("1", "node=a app=x", nil))
	owned := func(p *v1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", Controller: ptr.To(true)}}
	}
	refused := map[string]string{"a": reason, "none": "!" + reason + " (missing required label)"}
	pod := schedulertest.Pod("p", "app=x", nil)
	if got := schedulertest.Check(list, pod, s); len(got) != 0 {
		t.Errorf("a pod of no service: %v", got)
	}
	s.SetService(types.NamespacedName{Namespace: "default", Name: "svc"}, labels.Set{"app": "x"})
	if got := schedulertest.Check(list, pod, s); !reflect.DeepEqual(got, refused) {
		t.Errorf("a pod of a service: %v", got)
	}
	own := schedulertest.Pod("p", "app=x", spreadBy("zone", v1.ScheduleAnyway, nil))
	if got := schedulertest.Check(list, own, s); len(got) != 0 {
		t.Errorf("a pod with constraints of its own: %v", got)
	}
	s.RemoveService(types.NamespacedName{Namespace: "default", Name: "svc"})
	s.SetOwner(snapshot.Owner{Kind: "ReplicaSet", Namespace: "default", Name: "rs"},
		labels.SelectorFromSet(labels.Set{"app": "x"}))
	if got := schedulertest.Check(list, schedulertest.Pod("p", "app=x", owned), s); !reflect.DeepEqual(got, refused) {
		t.Errorf("a pod of a controller: %v", got)
	}
	if got := schedulertest.Check(list, pod, s); len(got) != 0 {
		t.Errorf("a pod like the controller's: %v", got)
	}
}

// TestBadSelector: what the API server would not admit is told and refuses all nodes.
func TestBadSelector(t *testing.T) {
	bad := spreadBy("zone", v1.DoNotSchedule, func(c *v1.TopologySpreadConstraint) {
		c.LabelSelector = &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Odd"}}}
	})
	_, refusal := System().Filter(snapshot.NewPod(schedulertest.Pod("p", "", bad)), zones())
	if refusal == nil || !refusal.Unresolvable ||
		refusal.Reasons[0] != `topologySpreadConstraints[0]: "Odd" is not a valid label selector operator` {
		t.Errorf("refusal %+v", refusal)
	}
}

func TestAllHints(t *testing.T) {
	hints := queue.Hints{Name: System().Hints()}
	p := snapshot.NewPod(schedulertest.Pod("p", "app=x", spreadBy("zone", v1.DoNotSchedule, nil)))
	pod := func(spec string, change func(*v1.Pod)) *snapshot.Pod {
		return snapshot.NewPod(schedulertest.Pod("o", spec, change))
	}
	node := func(spec string) *v1.Node { return schedulertest.Node("n", spec) }
	changed := func(kind queue.Kind, before, after string) queue.Event {
		return queue.Event{Kind: kind, OldNode: node(before), Node: node(after)}
	}
	for name, c := range map[string]struct {
		e    queue.Event
		want bool
	}{
		"a node in a zone":         {queue.Event{Kind: queue.NodeAdded, Node: node("zone=a")}, true},
		"a node in no zone":        {queue.Event{Kind: queue.NodeAdded, Node: node("")}, false},
		"it moved":                 {changed(queue.NodeLabels, "zone=a", "zone=b"), true},
		"it left its zone":         {changed(queue.NodeLabels, "zone=a", ""), true},
		"a label of no zone":       {changed(queue.NodeLabels, "a=1", "a=2"), false},
		"taints":                   {changed(queue.NodeTaints, "zone=a", "zone=a"), true},
		"taints of a node without": {changed(queue.NodeTaints, "", ""), false},
		"a pod of another namespace": {queue.Event{Kind: queue.PodAdded,
			Pod: pod("app=x", func(p *v1.Pod) { p.Namespace = "other" })}, false},
		"one that begins to terminate": {queue.Event{Kind: queue.PodLabels, OldPod: pod("app=x", nil),
			Pod: pod("app=x", func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} })}, true},
		"one that stays as it was": {queue.Event{Kind: queue.PodLabels, OldPod: pod("app=x v=1", nil),
			Pod: pod("app=x v=2", nil)}, false},
		"its own labels":     {queue.Event{Kind: queue.OwnLabels}, true},
		"its own toleration": {queue.Event{Kind: queue.OwnTolerations}, true},
		"room on a node":     {queue.Event{Kind: queue.NodeAllocatable, Node: node("zone=a")}, false},
	} {
		if got := hints.Helps(p, []string{Name}, c.e); got != c.want {
			t.Errorf("%s helps: %v", name, got)
		}
	}
}

func TestNormalize(t *testing.T) {
	for name, c := range map[string]struct{ scores, want []int64 }{
		"the fewest are best":     {[]int64{0, 5, 10}, []int64{100, 50, 0}},
		"shifted by the fewest":   {[]int64{5, 10}, []int64{100, 50}},
		"nothing anywhere":        {[]int64{0, 0}, []int64{100, 100}},
		"nodes without the label": {[]int64{ignored, 0, 10}, []int64{0, 100, 0}},
		"all without":             {[]int64{ignored, ignored}, []int64{0, 0}},
	} {
		got := append([]int64(nil), c.scores...)
		if normalize(got); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
