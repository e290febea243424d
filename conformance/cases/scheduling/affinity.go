package scheduling

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/conformance/suite"
)

const zoneKey = "zone"

func ofAffinity() []suite.Case {
	const affinity = assign + "#inter-pod-affinity-and-anti-affinity"
	return []suite.Case{
		{ID: "scheduling/pod-affinity", Run: podAffinity, Reference: affinity,
			Requirement: "A pod with required affinity MUST be bound only into a domain that has a pod of the " +
				"wanted kind, as soon as there is one."},
		{ID: "scheduling/pod-affinity-first", Run: podAffinityFirst, Reference: affinity,
			Requirement: "The first pod of a group that wants to be with its own kind MUST be bound, and all others " +
				"beside it."},
		{ID: "scheduling/pod-affinity-namespaces", Run: podAffinityNamespaces, Reference: assign + "#namespace-selector",
			Requirement: "A term of pod affinity MUST mean pods of the pod's own namespace, unless it names or " +
				"selects others."},
		{ID: "scheduling/pod-affinity-preferred", Run: podAffinityPreferred, Reference: affinity,
			Requirement: "Preferred pod affinity and anti-affinity MUST decide among the nodes that fit."},
		{ID: "scheduling/pod-anti-affinity", Run: podAntiAffinity, Reference: affinity,
			Requirement: "A pod with required anti-affinity MUST NOT be bound into a domain that has a pod of that " +
				"kind."},
		{ID: "scheduling/pod-anti-affinity-of-others", Run: podAntiAffinityOfOthers, Reference: affinity,
			Requirement: "A pod MUST NOT be bound into a domain where a pod's anti-affinity forbids it."},
		{ID: "scheduling/pod-anti-affinity-revisions", Run: podAntiAffinityRevisions,
			Reference: assign + "#matchlabelkeys",
			Requirement: "A term with matchLabelKeys MUST count only pods that have the pod's own values of those " +
				"labels."},
	}
}

// addZones makes one node for each name, in a zone that is the name's first letter.
func addZones(ctx context.Context, t *suite.T, names ...string) []string {
	var out []string
	for _, name := range names {
		out = append(out, addNode(ctx, t, name, func(n *corev1.Node) { n.Labels[zoneKey] = name[:1] }))
	}
	return out
}

// small returns a pod of a tenth of a CPU with a label app, changed by change.
func small(t *suite.T, name, app string, change func(*corev1.Pod)) *corev1.Pod {
	return pod(t, name, func(p *corev1.Pod) {
		cpu("100m")(p)
		p.Labels = map[string]string{"app": app}
		if change != nil {
			change(p)
		}
	})
}

// near is the term that means pods with the label app in the same topology domain.
func near(app, key string) corev1.PodAffinityTerm {
	return corev1.PodAffinityTerm{TopologyKey: key,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
}

func attracted(terms ...corev1.PodAffinityTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	}
}

func repelled(terms ...corev1.PodAffinityTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	}
}

// on places the pod on the node with that short name.
func on(name string, change func(*corev1.Pod)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.NodeSelector["name"] = name
		if change != nil {
			change(p)
		}
	}
}

func podAffinity(ctx context.Context, t *suite.T) {
	nodes := addZones(ctx, t, "a1", "b1", "b2")
	t.CreatePod(ctx, small(t, "early", "client", attracted(near("server", zoneKey))))
	t.Expect(refused(ctx, t, "early").Message).To(ContainSubstring("didn't match pod affinity rules"))
	place(ctx, t, small(t, "server", "server", on("b1", nil)))
	t.Expect(bound(ctx, t, "early")).To(BeElementOf(nodes[1:]), "a node of the server's zone")
	for i := range 2 {
		client := small(t, fmt.Sprint("client-", i), "client", attracted(near("server", zoneKey)))
		t.Expect(place(ctx, t, client)).To(BeElementOf(nodes[1:]), "a node of the server's zone")
	}
	// The domain is the zone, not the server's node.
	place(ctx, t, small(t, "beside", "client", on("b2", attracted(near("server", zoneKey)))))
}

// podAffinityFirst: the first pod of a group that wants to be with itself finds none of its kind anywhere.
func podAffinityFirst(ctx context.Context, t *suite.T) {
	addZones(ctx, t, "a1", "b1")
	first := place(ctx, t, small(t, "first", "group", attracted(near("group", zoneKey))))
	for i := range 3 {
		next := small(t, fmt.Sprint("next-", i), "group", attracted(near("group", zoneKey)))
		t.Expect(place(ctx, t, next)).To(Equal(first))
	}
}

func podAffinityNamespaces(ctx context.Context, t *suite.T) {
	addZones(ctx, t, "a1", "b1")
	other, err := t.Client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: t.Namespace + "-"}}, metav1.CreateOptions{})
	t.Must(err, "create a second namespace")
	t.Cleanup(func(ctx context.Context) {
		_ = t.Client.CoreV1().Namespaces().Delete(ctx, other.Name, metav1.DeleteOptions{})
	})
	foreign := small(t, "server", "server", on("b1", nil))
	foreign.Namespace = other.Name
	_, err = t.Client.CoreV1().Pods(other.Name).Create(ctx, foreign, metav1.CreateOptions{})
	t.Must(err, "create a pod in the second namespace")
	suite.WaitFor(ctx, t, "the pod of the second namespace bound", func(ctx context.Context) (*corev1.Pod, error) {
		return t.Client.CoreV1().Pods(other.Name).Get(ctx, "server", metav1.GetOptions{})
	}, HaveField("Spec.NodeName", Equal(t.Namespace+"-b1")))

	t.CreatePod(ctx, small(t, "own", "client", attracted(near("server", zoneKey))))
	t.Expect(refused(ctx, t, "own").Message).To(ContainSubstring("didn't match pod affinity rules"),
		"a term without namespaces means the pod's own")
	named := near("server", zoneKey)
	named.Namespaces = []string{other.Name}
	t.Expect(place(ctx, t, small(t, "named", "client", attracted(named)))).To(Equal(t.Namespace + "-b1"))
	selected := near("server", zoneKey)
	selected.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{
		corev1.LabelMetadataName: other.Name}}
	t.Expect(place(ctx, t, small(t, "selected", "client", attracted(selected)))).To(Equal(t.Namespace + "-b1"))
}

func podAffinityPreferred(ctx context.Context, t *suite.T) {
	nodes := addZones(ctx, t, "a1", "b1", "c1")
	place(ctx, t, small(t, "friend", "friend", on("b1", nil)))
	place(ctx, t, small(t, "foe", "foe", on("c1", nil)))
	prefers := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{
			PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
				{Weight: 100, PodAffinityTerm: near("friend", zoneKey)}}},
			PodAntiAffinity: &corev1.PodAntiAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
					{Weight: 100, PodAffinityTerm: near("foe", zoneKey)}}},
		}
	}
	t.Expect(place(ctx, t, small(t, "drawn", "own", prefers))).To(Equal(nodes[1]))
	place(ctx, t, pod(t, "full", on("b1", cpu("750m"))))
	// By what is free, the foe's node would be chosen.
	place(ctx, t, pod(t, "busy", on("a1", cpu("700m"))))
	t.Expect(place(ctx, t, small(t, "second", "own", prefers))).To(Equal(nodes[0]),
		"no room beside the friend, and the foe is to be avoided")
}

func podAntiAffinity(ctx context.Context, t *suite.T) {
	addZones(ctx, t, "a1", "b1", "b2")
	one := place(ctx, t, small(t, "one", "single", repelled(near("single", zoneKey))))
	two := place(ctx, t, small(t, "two", "single", repelled(near("single", zoneKey))))
	t.Expect(two[len(t.Namespace)+1]).NotTo(Equal(one[len(t.Namespace)+1]), "%s and %s: their zones", one, two)
	t.CreatePod(ctx, small(t, "three", "single", repelled(near("single", zoneKey))))
	t.Expect(refused(ctx, t, "three").Message).To(ContainSubstring("didn't match pod anti-affinity rules"))
	remove(ctx, t, "one")
	bound(ctx, t, "three")
}

// podAntiAffinityOfOthers: the terms of pods that are there already keep a pod away that has none itself.
func podAntiAffinityOfOthers(ctx context.Context, t *suite.T) {
	nodes := addZones(ctx, t, "a1", "b1")
	place(ctx, t, small(t, "loner", "loner", on("a1", repelled(near("crowd", corev1.LabelHostname)))))
	for i := range 2 {
		t.Expect(place(ctx, t, small(t, fmt.Sprint("crowd-", i), "crowd", nil))).To(Equal(nodes[1]))
	}
	t.CreatePod(ctx, small(t, "stubborn", "crowd", on("a1", nil)))
	t.Expect(refused(ctx, t, "stubborn").Message).To(
		ContainSubstring("didn't satisfy existing pods anti-affinity rules"))
	remove(ctx, t, "loner")
	t.Expect(bound(ctx, t, "stubborn")).To(Equal(nodes[0]))
}

// podAntiAffinityRevisions: with matchLabelKeys, pods of another revision do not count.
func podAntiAffinityRevisions(ctx context.Context, t *suite.T) {
	addZones(ctx, t, "a1")
	term := near("rolling", corev1.LabelHostname)
	term.MatchLabelKeys = []string{"revision"}
	of := func(revision string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Labels["revision"] = revision
			repelled(term)(p)
		}
	}
	place(ctx, t, small(t, "old", "rolling", of("1")))
	place(ctx, t, small(t, "new", "rolling", of("2")))
	t.CreatePod(ctx, small(t, "newer", "rolling", of("2")))
	t.Expect(refused(ctx, t, "newer").Message).To(ContainSubstring("didn't match pod anti-affinity rules"))
}
