package interpodaffinity

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

func term(app, key string) v1.PodAffinityTerm {
	return v1.PodAffinityTerm{TopologyKey: key,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
}

func near(terms ...v1.PodAffinityTerm) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	}
}

func away(terms ...v1.PodAffinityTerm) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{
			PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms},
		}
	}
}

func nodes() []metav1.Object {
	return []metav1.Object{
		schedulertest.Node("a1", "zone=a"), schedulertest.Node("a2", "zone=a"), schedulertest.Node("b1", "zone=b"),
		schedulertest.Node("none", ""),
	}
}

func TestFilter(t *testing.T) {
	const (
		notNear  = "!node(s) didn't match pod affinity rules"
		notAway  = "node(s) didn't match pod anti-affinity rules"
		existing = "node(s) didn't satisfy existing pods anti-affinity rules"
	)
	there := schedulertest.Pod("there", "node=a1 app=db", nil)
	elsewhere := schedulertest.Pod("elsewhere", "node=a1 app=db", func(p *v1.Pod) { p.Namespace = "other" })
	inOther := term("db", "zone")
	inOther.Namespaces = []string{"other"}
	inTeam := term("db", "zone")
	inTeam.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}
	inAny := term("db", "zone")
	inAny.NamespaceSelector = &metav1.LabelSelector{}
	cases := map[string]struct {
		placed *v1.Pod
		change func(*v1.Pod)
		want   map[string]string
	}{
		"none": {there, nil, map[string]string{}},
		"near": {there, near(term("db", "zone")), map[string]string{"b1": notNear, "none": notNear}},
		"near no pod": {there, near(term("cache", "zone")), map[string]string{"a1": notNear, "a2": notNear,
			"b1": notNear, "none": notNear}},
		"first of its group": {there, near(term("web", "zone")), map[string]string{"none": notNear}},
		"two terms, one fails": {there, near(term("db", "zone"), term("web", "zone")),
			map[string]string{"a1": notNear, "a2": notNear, "b1": notNear, "none": notNear}},
		"other namespace": {elsewhere, near(term("db", "zone")),
			map[string]string{"a1": notNear, "a2": notNear, "b1": notNear, "none": notNear}},
		"named namespace":    {elsewhere, near(inOther), map[string]string{"b1": notNear, "none": notNear}},
		"namespace by label": {elsewhere, near(inTeam), map[string]string{"b1": notNear, "none": notNear}},
		"any namespace":      {elsewhere, near(inAny), map[string]string{"b1": notNear, "none": notNear}},
		"away by zone":       {there, away(term("db", "zone")), map[string]string{"a1": notAway, "a2": notAway}},
		"away by host":       {there, away(term("db", v1.LabelHostname)), map[string]string{"a1": notAway}},
		"kept away by zone": {schedulertest.Pod("there", "node=b1 app=db", away(term("web", "zone"))), nil,
			map[string]string{"b1": existing}},
		"kept away by a sibling": {schedulertest.Pod("there", "node=b1 app=web", away(term("web", "zone"))),
			away(term("web", "zone")), map[string]string{"b1": notAway}},
	}
	for name, c := range cases {
		s := schedulertest.Snapshot(append(nodes(), c.placed)...)
		s.SetNamespace("other", labels.Set{"team": "x"})
		if got := schedulertest.Check(&Plugin{}, schedulertest.Pod("p", "app=web", c.change),
			s); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestFollows(t *testing.T) {
	keeps := schedulertest.Pod("keeps", "node=b1 app=db", away(term("web", "zone")))
	s := schedulertest.Snapshot(append(nodes(), schedulertest.Pod("there", "node=a1 app=db", nil), keeps)...)
	test, _ := (&Plugin{}).Filter(snapshot.NewPod(schedulertest.Pod("p", "app=web", away(term("db", "zone")))), s)
	for _, c := range []struct{ pod, node string }{{"there", "a1"}, {"keeps", "b1"}} {
		n := s.Node(c.node)
		p := n.Pods[0]
		if test.Check(n) == nil {
			t.Errorf("%s does not matter", c.pod)
		}
		test.(cycle.PreFilterExtensions).Follow(p, n, -1)
		if refusal := test.Check(n); refusal != nil {
			t.Errorf("%s went, but %v", c.pod, refusal.Reasons)
		}
		test.(cycle.PreFilterExtensions).Follow(p, n, 1)
		if test.Check(n) == nil {
			t.Errorf("%s is back and does not matter", c.pod)
		}
	}
}

func TestScore(t *testing.T) {
	prefer := func(weight int32, anti bool, terms v1.PodAffinityTerm) func(*v1.Pod) {
		return func(p *v1.Pod) {
			weighted := []v1.WeightedPodAffinityTerm{{Weight: weight, PodAffinityTerm: terms}}
			p.Spec.Affinity = &v1.Affinity{
				PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted},
			}
			if anti {
				p.Spec.Affinity = &v1.Affinity{
					PodAntiAffinity: &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted},
				}
			}
		}
	}
	plain := schedulertest.Pod("there", "node=a1 app=db", nil)
	cases := map[string]struct {
		placed *v1.Pod
		change func(*v1.Pod)
		plugin Plugin
		want   map[string]int64
	}{
		"near": {plain, prefer(5, false, term("db", "zone")), Plugin{},
			map[string]int64{"a1": 100, "a2": 100, "b1": 0, "none": 0}},
		"away": {plain, prefer(5, true, term("db", "zone")), Plugin{},
			map[string]int64{"a1": 0, "a2": 0, "b1": 100, "none": 100}},
		"no wish": {plain, nil, Plugin{HardWeight: 1}, nil},
		"their wish": {schedulertest.Pod("there", "node=b1 app=db", prefer(3, false, term("web", v1.LabelHostname))),
			nil, Plugin{}, map[string]int64{"a1": 0, "a2": 0, "b1": 100, "none": 0}},
		"ignored": {schedulertest.Pod("there", "node=b1 app=db", prefer(3, false, term("web", v1.LabelHostname))),
			nil, Plugin{IgnorePreferred: true}, nil},
		"their demand": {schedulertest.Pod("there", "node=b1 app=db", near(term("web", "zone"))), nil,
			Plugin{HardWeight: 1}, map[string]int64{"a1": 0, "a2": 0, "b1": 100, "none": 0}},
	}
	for name, c := range cases {
		s := schedulertest.Snapshot(append(nodes(), c.placed)...)
		if got := schedulertest.Scores(&c.plugin, schedulertest.Pod("p", "app=web", c.change),
			s); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestHints(t *testing.T) {
	db, web := snapshot.NewPod(schedulertest.Pod("db", "app=db", nil)),
		snapshot.NewPod(schedulertest.Pod("web", "app=web", nil))
	wants := snapshot.NewPod(schedulertest.Pod("p", "app=web", near(term("db", "zone"))))
	avoids := snapshot.NewPod(schedulertest.Pod("p", "app=web", away(term("db", "zone"))))
	cases := map[string]struct {
		pod  *snapshot.Pod
		e    queue.Event
		want bool
	}{
		"wanted comes":   {wants, queue.Event{Pod: db}, true},
		"unwanted comes": {wants, queue.Event{Pod: web}, false},
		"avoided goes":   {avoids, queue.Event{OldPod: db}, true},
		"avoided comes":  {avoids, queue.Event{Pod: db}, false},
	}
	for name, c := range cases {
		if got := podHelps(c.pod, c.e); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
