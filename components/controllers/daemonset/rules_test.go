package daemonset

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quintet.dev/quintet/components/controllers/pods"
)

// at is a pod of the set for a node, described by words: old or new (its template), bound, ready, going, failed,
// succeeded, young.
func at(w *world, name, node, words string) *v1.Pod {
	hash := "v1"
	if strings.Contains(words, "old") {
		hash = "v0"
	}
	p := newPod(w.o.set, node, hash)
	p.Name, p.UID = name, types.UID(name)
	p.CreationTimestamp = metav1.NewTime(w.o.now.Add(-time.Hour))
	p.Status.Phase = v1.PodPending
	for word := range strings.FieldsSeq(words) {
		switch word {
		case "bound":
			p.Spec.NodeName = node
		case "ready":
			p.Spec.NodeName, p.Status.Phase = node, v1.PodRunning
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(w.o.now.Add(-time.Minute))}}
		case "going":
			p.DeletionTimestamp = &metav1.Time{Time: w.o.now}
		case "failed":
			p.Status.Phase = v1.PodFailed
		case "succeeded":
			p.Status.Phase = v1.PodSucceeded
		case "young":
			p.CreationTimestamp = metav1.NewTime(w.o.now)
		}
	}
	return p
}

func show(p plan) string {
	var gone []string
	for _, pod := range p.delete {
		gone = append(gone, pod.Name)
	}
	slices.Sort(gone)
	create := slices.Sorted(slices.Values(p.create))
	s := p.status
	return fmt.Sprintf("+%v -%v desired=%d current=%d ready=%d updated=%d avail=%d unavail=%d mis=%d", create, gone,
		s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.NumberReady, s.UpdatedNumberScheduled, s.NumberAvailable,
		s.NumberUnavailable, s.NumberMisscheduled)
}

// TestPlans decides on nodes n0..n2, of which n2 may be tainted. Pods are "name@node: words".
func TestPlans(t *testing.T) {
	for name, c := range map[string]struct {
		surge int32
		taint v1.TaintEffect // of n2
		pods  []string
		want  string
	}{
		"none": {want: "+[n0 n1 n2] -[] desired=3 current=0 ready=0 updated=0 avail=0 unavail=3 mis=0"},
		"all there": {pods: []string{"a@n0: new ready", "b@n1: new ready", "c@n2: new ready"},
			want: "+[] -[] desired=3 current=3 ready=3 updated=3 avail=3 unavail=0 mis=0"},
		"not scheduled yet counts for its node": {pods: []string{"a@n0: new", "b@n1: new ready", "c@n2: new ready"},
			want: "+[] -[] desired=3 current=3 ready=2 updated=3 avail=2 unavail=1 mis=0"},
		"two on a node: the younger goes": {pods: []string{"a@n0: new ready young", "z@n0: new ready", "b@n1: new ready",
			"c@n2: new ready"},
			want: "+[] -[a] desired=3 current=3 ready=3 updated=3 avail=3 unavail=0 mis=0"},
		"one is going": {pods: []string{"a@n0: new ready going", "b@n1: new ready", "c@n2: new ready"},
			want: "+[] -[] desired=3 current=3 ready=3 updated=3 avail=3 unavail=0 mis=0"},
		"failed and succeeded": {pods: []string{"a@n0: new bound failed", "b@n1: new bound succeeded", "c@n2: new ready"},
			want: "+[] -[a b] desired=3 current=1 ready=1 updated=1 avail=1 unavail=2 mis=0"},
		"not tolerated, running": {taint: v1.TaintEffectNoSchedule, pods: []string{"a@n0: new ready", "b@n1: new ready",
			"c@n2: new ready"},
			want: "+[] -[] desired=2 current=2 ready=2 updated=2 avail=2 unavail=0 mis=1"},
		"not tolerated, absent": {taint: v1.TaintEffectNoSchedule, pods: []string{"a@n0: new ready", "b@n1: new ready"},
			want: "+[] -[] desired=2 current=2 ready=2 updated=2 avail=2 unavail=0 mis=0"},
		"must not stay": {taint: v1.TaintEffectNoExecute, pods: []string{"a@n0: new ready", "b@n1: new ready",
			"c@n2: new ready"},
			want: "+[] -[c] desired=2 current=2 ready=2 updated=2 avail=2 unavail=0 mis=1"},
		"of a node that is gone": {pods: []string{"a@n0: new ready", "b@n1: new ready", "c@n2: new ready", "d@gone: new",
			"e@gone: new bound"},
			want: "+[] -[d] desired=3 current=3 ready=3 updated=3 avail=3 unavail=0 mis=0"},
		"an update takes one": {pods: []string{"a@n0: old ready", "b@n1: old ready", "c@n2: old ready"},
			want: "+[] -[a] desired=3 current=3 ready=3 updated=0 avail=3 unavail=0 mis=0"},
		"an update waits for the next": {pods: []string{"a@n0: new bound", "b@n1: old ready", "c@n2: old ready"},
			want: "+[] -[] desired=3 current=3 ready=2 updated=1 avail=2 unavail=1 mis=0"},
		"what doesn't serve is replaced at once": {pods: []string{"a@n0: old bound", "b@n1: old bound", "c@n2: old ready"},
			want: "+[] -[a b] desired=3 current=3 ready=1 updated=0 avail=1 unavail=2 mis=0"},
		"a surge of one": {surge: 1, pods: []string{"a@n0: old ready", "b@n1: old ready", "c@n2: old ready"},
			want: "+[n0] -[] desired=3 current=3 ready=3 updated=0 avail=3 unavail=0 mis=0"},
		"a stuck surge of one": {surge: 1, pods: []string{"a@n0: old ready", "A@n0: new young", "b@n1: old ready",
			"c@n2: old ready"},
			want: "+[] -[] desired=3 current=3 ready=3 updated=0 avail=3 unavail=0 mis=0"},
		"a stuck surge raised to two": {surge: 2, pods: []string{"a@n0: old ready", "A@n0: new young", "b@n1: old ready",
			"c@n2: old ready"},
			want: "+[n1] -[] desired=3 current=3 ready=3 updated=0 avail=3 unavail=0 mis=0"},
		"a stuck surge whose old pod went": {surge: 2, pods: []string{"A@n0: new young", "b@n1: old ready", "B@n1: new young",
			"c@n2: old ready",
			"C@n2: new young"}, want: "+[] -[] desired=3 current=3 ready=2 updated=1 avail=2 unavail=1 mis=0"},
		"a surge that serves": {surge: 1, pods: []string{"a@n0: old ready", "A@n0: new ready young", "b@n1: old ready",
			"c@n2: old ready"},
			want: "+[] -[a] desired=3 current=3 ready=3 updated=0 avail=3 unavail=0 mis=0"},
		"a surge, and one that doesn't serve": {surge: 1, pods: []string{"a@n0: old bound", "b@n1: old ready",
			"c@n2: old ready"},
			want: "+[n1] -[a] desired=3 current=3 ready=2 updated=0 avail=2 unavail=1 mis=0"},
	} {
		unavailable := int32(1)
		if c.surge > 0 {
			unavailable = 0
		}
		w := newWorld(1, 3, unavailable, c.surge)
		if c.taint != "" {
			w.o.nodes[2].Spec.Taints = []v1.Taint{{Key: "x", Effect: c.taint}}
		}
		for _, text := range c.pods {
			where, words, _ := strings.Cut(text, ":")
			pod, node, _ := strings.Cut(where, "@")
			w.o.pods = append(w.o.pods, at(w, pod, node, words))
		}
		if got := show(decide(w.o)); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, c.want)
		}
		w.o.expectationsMet = false
		if p := decide(w.o); len(p.create)+len(p.delete) > 0 {
			t.Errorf("%s: acts before its writes are seen", name)
		}
	}
}

func TestOnDelete(t *testing.T) {
	w := newWorld(1, 2, 1, 0)
	w.o.set.Spec.UpdateStrategy = apps.DaemonSetUpdateStrategy{Type: apps.OnDeleteDaemonSetStrategyType}
	w.o.pods = []*v1.Pod{at(w, "a", "n0", "old ready"), at(w, "b", "n1", "old bound")}
	if got := show(decide(w.o)); !strings.HasPrefix(got, "+[] -[] desired=2") {
		t.Error(got)
	}
	w.o.pods = w.o.pods[:1]
	if got := show(decide(w.o)); !strings.HasPrefix(got, "+[n1] -[] desired=2") {
		t.Errorf("one was deleted: %s", got)
	}
}

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		unavailable, surge string
		nodes              int
		want               string
	}{
		{"1", "0", 8, "1 0"}, {"30%", "0", 8, "3 0"}, {"0", "25%", 8, "0 2"}, {"0%", "0%", 8, "1 0"}, {"10%", "0", 3, "1 0"},
		{"0", "1%", 3, "0 1"}, {"100%", "0", 8, "8 0"}, {"50%", "0", 0, "1 0"}, {"nonsense", "0", 8, "1 0"},
	} {
		w := newWorld(1, c.nodes, 1, 0)
		u, s := intstr.Parse(c.unavailable), intstr.Parse(c.surge)
		w.o.set.Spec.UpdateStrategy.RollingUpdate = &apps.RollingUpdateDaemonSet{MaxUnavailable: &u, MaxSurge: &s}
		o := &step{observed: w.o, fits: map[string]fit{}}
		for _, n := range w.o.nodes {
			o.fits[n.Name] = fit{run: true, stay: true}
		}
		unavailable, surge := o.bounds()
		if got := fmt.Sprint(unavailable, " ", surge); got != c.want {
			t.Errorf("%s and %s of %d: %s, want %s", c.unavailable, c.surge, c.nodes, got, c.want)
		}
	}
}

func TestTarget(t *testing.T) {
	w := newWorld(1, 1, 1, 0)
	w.o.set.Spec.Template.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
			{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "a", Operator: v1.NodeSelectorOpExists}}},
			{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "b", Operator: v1.NodeSelectorOpExists}}},
		}}}}
	p := newPod(w.o.set, "n0", "h")
	terms := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i, term := range terms {
		if len(term.MatchExpressions) != 1 || len(term.MatchFields) != 1 || term.MatchFields[0].Values[0] != "n0" {
			t.Errorf("term %d: %+v", i, term)
		}
	}
	if target(p) != "n0" || len(terms) != 2 {
		t.Errorf("%q, %d terms", target(p), len(terms))
	}
	if p.Spec.NodeName = "other"; target(p) != "other" {
		t.Error("a bound pod counts where it is")
	}
	if len(w.o.set.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.
		NodeSelectorTerms[0].MatchFields) != 0 {
		t.Error("the template was changed")
	}
	if got := target(&v1.Pod{}); got != "" {
		t.Errorf("without affinity: %q", got)
	}
}

func TestDaemonsTolerate(t *testing.T) {
	for _, host := range []bool{false, true} {
		w := newWorld(1, 1, 1, 0)
		w.o.set.Spec.Template.Spec.HostNetwork = host
		w.o.set.Spec.Template.Spec.Tolerations = []v1.Toleration{{Key: "mine", Operator: v1.TolerationOpExists},
			{Key: v1.TaintNodeNotReady, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute,
				TolerationSeconds: new(int64)}}
		var got []string
		for _, tol := range newPod(w.o.set, "n0", "h").Spec.Tolerations {
			got = append(got, strings.TrimPrefix(tol.Key, "node.kubernetes.io/")+":"+string(tol.Effect))
			if tol.Operator != v1.TolerationOpExists || tol.TolerationSeconds != nil {
				t.Errorf("%+v", tol)
			}
		}
		want := "mine: not-ready:NoExecute unreachable:NoExecute disk-pressure:NoSchedule memory-pressure:NoSchedule " +
			"pid-pressure:NoSchedule unschedulable:NoSchedule"
		if host {
			want += " network-unavailable:NoSchedule"
		}
		if strings.Join(got, " ") != want {
			t.Errorf("host network %v: %v", host, got)
		}
	}
}

func TestLabelsOfPods(t *testing.T) {
	w := newWorld(1, 1, 1, 0)
	for annotation, want := range map[string]string{"": "", "3": "3", "x": ""} {
		w.o.set.Annotations = map[string]string{apps.DeprecatedTemplateGeneration: annotation}
		p := newPod(w.o.set, "n0", "h")
		if p.Labels["pod-template-generation"] != want || p.Labels["controller-revision-hash"] != "h" ||
			p.GenerateName != "d-" || !metav1.IsControlledBy(p, w.o.set) {
			t.Errorf("%q: %+v", annotation, p.ObjectMeta)
		}
	}
}

// TestNodesComeAndGo: whatever nodes, taints and templates do, each fitting node ends up with exactly one pod of the
// current template, no other has any, and never are there two without a surge.
func TestNodesComeAndGo(t *testing.T) {
	for seed := range uint64(25) {
		surge := int32(seed % 2)
		w := newWorld(seed, 5, 1-surge, surge)
		random := rand.New(rand.NewPCG(seed, 77))
		check := func() {
			if n := w.doubled(); n > 5*int(surge) {
				t.Fatalf("seed %d: %d nodes have two pods", seed, n)
			}
		}
		for range 8 {
			n := w.o.nodes[random.IntN(len(w.o.nodes))]
			switch random.IntN(4) {
			case 0:
				w.o.hash = fmt.Sprint("v", random.IntN(9))
			case 1:
				n.Spec.Taints = []v1.Taint{{Key: "x", Effect: v1.TaintEffectNoExecute}}
			case 2:
				n.Spec.Taints = nil
			case 3:
				w.made++
				w.o.nodes = append(w.o.nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("late", w.made)}})
			}
			for range random.IntN(10) {
				w.reconcile()
				w.live()
				check()
			}
		}
		w.settle(t, check)
		perNode := map[string]int{}
		for _, p := range w.o.pods {
			if perNode[target(p)]++; p.Labels[apps.DefaultDaemonSetUniqueLabelKey] != w.o.hash || !pods.Ready(p) {
				t.Fatalf("seed %d: %s has an old pod, or one that isn't ready", seed, target(p))
			}
		}
		for _, n := range w.o.nodes {
			if want := 1 - min(len(n.Spec.Taints), 1); perNode[n.Name] != want {
				t.Fatalf("seed %d: %s has %d pods, want %d", seed, n.Name, perNode[n.Name], want)
			}
		}
	}
}
