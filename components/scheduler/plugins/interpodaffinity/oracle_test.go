package interpodaffinity

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// The plug-in counts classes of equal pods by columns of labels. The functions below evaluate the documentation of
// inter-pod affinity pod by pod and node by node, on API objects alone.

type naive struct {
	nodes      []*v1.Node
	pods       []*v1.Pod
	namespaces map[string]labels.Set
}

func (w *naive) selects(of *v1.Pod, term *v1.PodAffinityTerm, p *v1.Pod) bool {
	in := len(term.Namespaces) == 0 && term.NamespaceSelector == nil && p.Namespace == of.Namespace
	for _, name := range term.Namespaces {
		in = in || name == p.Namespace
	}
	if term.NamespaceSelector != nil {
		selector, _ := metav1.LabelSelectorAsSelector(term.NamespaceSelector)
		in = in || selector.Matches(w.namespaces[p.Namespace])
	}
	selector, _ := metav1.LabelSelectorAsSelector(term.LabelSelector)
	return in && selector.Matches(labels.Set(p.Labels))
}

func (w *naive) together(a, b *v1.Node, key string) bool {
	x, has := a.Labels[key]
	y, had := b.Labels[key]
	return has && had && x == y
}

func (w *naive) node(name string) *v1.Node {
	for _, n := range w.nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

func nearTerms(p *v1.Pod) []v1.PodAffinityTerm {
	if p.Spec.Affinity == nil || p.Spec.Affinity.PodAffinity == nil {
		return nil
	}
	return p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

func awayTerms(p *v1.Pod) []v1.PodAffinityTerm {
	if p.Spec.Affinity == nil || p.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	return p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

// near: each domain that the node is in has a pod that all terms select; or there is no such pod anywhere that has a
// domain, and the pod is selected by all of its terms itself.
func (w *naive) near(p *v1.Pod, n *v1.Node) bool {
	terms := nearTerms(p)
	all := func(other *v1.Pod) bool {
		for i := range terms {
			if !w.selects(p, &terms[i], other) {
				return false
			}
		}
		return true
	}
	fits, anywhere := true, false
	for i := range terms {
		if _, ok := n.Labels[terms[i].TopologyKey]; !ok {
			return false
		}
		found := false
		for _, other := range w.pods {
			on := w.node(other.Spec.NodeName)
			if on == nil || !all(other) {
				continue
			}
			if _, ok := on.Labels[terms[i].TopologyKey]; ok {
				anywhere = true
			}
			found = found || w.together(on, n, terms[i].TopologyKey)
		}
		fits = fits && found
	}
	return fits || !anywhere && all(p)
}

func (w *naive) refuses(p *v1.Pod, n *v1.Node) string {
	if !w.near(p, n) {
		return "!node(s) didn't match pod affinity rules"
	}
	kept := func(of, other *v1.Pod, on *v1.Node) bool {
		terms := awayTerms(of)
		for i := range terms {
			if w.selects(of, &terms[i], other) && w.together(on, n, terms[i].TopologyKey) {
				return true
			}
		}
		return false
	}
	why := ""
	for _, other := range w.pods {
		on := w.node(other.Spec.NodeName)
		if on == nil {
			continue
		}
		if kept(p, other, on) {
			return "node(s) didn't match pod anti-affinity rules"
		}
		if kept(other, p, on) {
			why = "node(s) didn't satisfy existing pods anti-affinity rules"
		}
	}
	return why
}

// world is a random cluster, as the plug-in and the naive evaluation see it.
func world(r *rand.Rand) (*naive, *snapshot.Snapshot) {
	w := &naive{namespaces: map[string]labels.Set{"default": {"team": "a"}, "other": {"team": "b"}}}
	s := snapshot.New()
	for name, set := range w.namespaces {
		s.SetNamespace(name, set)
	}
	for i := range 1 + r.IntN(6) {
		spec := ""
		if r.IntN(5) > 0 {
			spec = fmt.Sprintf("zone=%d", r.IntN(3))
		}
		n := schedulertest.Node(fmt.Sprint("n", i), spec)
		w.nodes = append(w.nodes, n)
		s.SetNode(n)
	}
	for i := range r.IntN(9) {
		p := randomPod(r, fmt.Sprint("p", i))
		p.Spec.NodeName = fmt.Sprint("n", r.IntN(7)) // some on a node that is not there
		w.pods = append(w.pods, p)
		s.SetPod(snapshot.NewPod(p))
	}
	if len(w.pods) > 1 { // one went again, and the counts with it
		s.RemovePod(w.pods[0].UID)
		w.pods = w.pods[1:]
	}
	return w, s
}

func randomPod(r *rand.Rand, name string) *v1.Pod {
	return schedulertest.Pod(name, fmt.Sprintf("app=%d tier=%d", r.IntN(3), r.IntN(2)), func(p *v1.Pod) {
		if r.IntN(3) == 0 {
			p.Namespace = "other"
		}
		p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{}, PodAntiAffinity: &v1.PodAntiAffinity{}}
		if r.IntN(2) == 0 {
			p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = randomTerms(r)
		}
		if r.IntN(2) == 0 {
			p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = randomTerms(r)
		}
	})
}

func randomTerms(r *rand.Rand) []v1.PodAffinityTerm {
	var terms []v1.PodAffinityTerm
	for range 1 + r.IntN(2) {
		key := []string{"zone", v1.LabelHostname}[r.IntN(2)]
		t := term(fmt.Sprint(r.IntN(3)), key)
		switch r.IntN(5) {
		case 0:
			t.Namespaces = []string{"other"}
		case 1:
			t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
		case 2:
			t.NamespaceSelector = &metav1.LabelSelector{}
		case 3:
			t.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "tier", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"0"}}}}
		}
		terms = append(terms, t)
	}
	return terms
}

// TestAgainstDocumentation compares the plug-in with the naive evaluation on random clusters.
func TestAgainstDocumentation(t *testing.T) {
	said := map[string]int{}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 11))
		w, s := world(r)
		p := randomPod(r, "new")
		want := map[string]string{}
		for _, n := range w.nodes {
			if why := w.refuses(p, n); why != "" {
				want[n.Name] = why
				said[why]++
			}
		}
		if got := schedulertest.Check(&Plugin{}, p, s); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: got %v, want %v\npod %+v", seed, got, want, p.Spec.Affinity)
		}
	}
	if len(said) != 3 {
		t.Errorf("the clusters show only %v", said)
	}
}

func TestNodeHints(t *testing.T) {
	hints := queue.Hints{Name: (&Plugin{}).Hints()}
	wants := snapshot.NewPod(schedulertest.Pod("p", "app=web", near(term("db", "zone"))))
	avoids := snapshot.NewPod(schedulertest.Pod("p", "app=web", away(term("db", "zone"))))
	pod := func(spec string, change func(*v1.Pod)) *snapshot.Pod {
		return snapshot.NewPod(schedulertest.Pod("o", spec, change))
	}
	added := func(spec string) queue.Event {
		return queue.Event{Kind: queue.NodeAdded, Node: schedulertest.Node("n", spec)}
	}
	for name, c := range map[string]struct {
		p    *snapshot.Pod
		e    queue.Event
		want bool
	}{
		"a node in a zone":            {wants, added("zone=a"), true},
		"a node in no zone":           {wants, added(""), false},
		"any node to one that avoids": {avoids, added(""), true},
		"a node that went":            {avoids, queue.Event{Kind: queue.NodeRemoved}, true},
		"a pod that is to be near got the label": {wants,
			queue.Event{Kind: queue.PodLabels, OldPod: pod("app=x", nil), Pod: pod("app=db", nil)}, true},
		"an avoided one lost it": {avoids,
			queue.Event{Kind: queue.PodLabels, OldPod: pod("app=db", nil), Pod: pod("app=x", nil)}, true},
		"one that keeps it away went": {pod("app=web", nil),
			queue.Event{Kind: queue.PodRemoved, OldPod: pod("app=x", away(term("web", "zone")))}, true},
		"one that keeps others away went": {pod("app=web", nil),
			queue.Event{Kind: queue.PodRemoved, OldPod: pod("app=x", away(term("db", "zone")))}, false},
		"of another namespace": {avoids, queue.Event{Kind: queue.PodRemoved,
			OldPod: pod("app=db", func(p *v1.Pod) { p.Namespace = "other" })}, false},
		"labels of a namespace": {wants, queue.Event{Kind: queue.NamespaceLabels}, true},
		"its own labels":        {wants, queue.Event{Kind: queue.OwnLabels}, true},
		"taints of a node":      {wants, queue.Event{Kind: queue.NodeTaints}, false},
	} {
		if got := hints.Helps(c.p, []string{Name}, c.e); got != c.want {
			t.Errorf("%s helps: %v", name, got)
		}
	}
}

// TestScoreSums: weights add up over terms and pods, those of anti-affinity count against, and required affinity of
// placed pods counts by HardWeight.
func TestScoreSums(t *testing.T) {
	prefer := func(near bool, terms ...v1.WeightedPodAffinityTerm) func(*v1.Pod) {
		return func(p *v1.Pod) {
			if p.Spec.Affinity == nil {
				p.Spec.Affinity = &v1.Affinity{}
			}
			if near {
				p.Spec.Affinity.PodAffinity = &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms}
				return
			}
			p.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms}
		}
	}
	weighted := func(weight int32, app string) v1.WeightedPodAffinityTerm {
		return v1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: term(app, v1.LabelHostname)}
	}
	both := func(p *v1.Pod) {
		prefer(true, weighted(10, "db"))(p)
		prefer(false, weighted(30, "noisy"))(p)
	}
	placed := []metav1.Object{
		schedulertest.Pod("1", "node=a1 app=db", nil), schedulertest.Pod("2", "node=a1 app=db", nil),
		schedulertest.Pod("3", "node=a2 app=db", nil), schedulertest.Pod("4", "node=b1 app=noisy", nil),
	}
	for name, c := range map[string]struct {
		more   []metav1.Object
		change func(*v1.Pod)
		plugin Plugin
		want   map[string]int64
	}{
		"per pod": {nil, prefer(true, weighted(10, "db")), Plugin{}, // 20, 10, 0, 0
			map[string]int64{"a1": 100, "a2": 50, "b1": 0, "none": 0}},
		"for and against": {nil, both, Plugin{}, // 20, 10, -30, 0
			map[string]int64{"a1": 100, "a2": 80, "b1": 0, "none": 60}},
		"two terms": {nil, prefer(true, weighted(10, "db"), weighted(50, "noisy")), Plugin{}, // 20, 10, 50, 0
			map[string]int64{"a1": 40, "a2": 20, "b1": 100, "none": 0}},
		"theirs against": {[]metav1.Object{schedulertest.Pod("5", "node=a2 app=x", prefer(false, weighted(5, "web")))},
			nil, Plugin{}, map[string]int64{"a1": 100, "a2": 0, "b1": 100, "none": 100}},
		"demands by their weight": {[]metav1.Object{
			schedulertest.Pod("5", "node=a2 app=x", near(term("web", v1.LabelHostname))),
			schedulertest.Pod("6", "node=b1 app=x", prefer(true, weighted(20, "web")))},
			nil, Plugin{HardWeight: 10}, map[string]int64{"a1": 0, "a2": 50, "b1": 100, "none": 0}},
		"demands that weigh nothing": {[]metav1.Object{
			schedulertest.Pod("5", "node=a2 app=x", near(term("web", v1.LabelHostname)))}, nil, Plugin{}, nil},
		"theirs count to a pod with terms": {[]metav1.Object{
			schedulertest.Pod("5", "node=a2 app=x", prefer(true, weighted(40, "web")))},
			prefer(true, weighted(10, "db")), Plugin{IgnorePreferred: true},
			map[string]int64{"a1": 40, "a2": 100, "b1": 0, "none": 0}},
	} {
		s := schedulertest.Snapshot(append(append(nodes(), placed...), c.more...)...)
		got := schedulertest.Scores(&c.plugin, schedulertest.Pod("p", "app=web", c.change), s)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
