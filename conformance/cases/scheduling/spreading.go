package scheduling

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

func ofSpreading() []suite.Case {
	return []suite.Case{
		{ID: "scheduling/topology-spread", Run: topologySpread, Reference: spreading,
			Requirement: "A pod MUST NOT be bound where its domains' counts would differ by more than maxSkew."},
		{ID: "scheduling/topology-spread-anyway", Run: topologySpreadAnyway, Reference: spreading,
			Requirement: "A constraint with ScheduleAnyway MUST prefer the emptier domain and forbid none."},
		{ID: "scheduling/topology-spread-domains", Run: topologySpreadDomains, Reference: spreading,
			Requirement: "With fewer domains than minDomains the least count MUST be taken for zero."},
		{ID: "scheduling/topology-spread-policies", Run: topologySpreadPolicies, Reference: spreading,
			Requirement: "Nodes whose taints a pod does not tolerate MUST count as domains unless nodeTaintsPolicy " +
				"is Honor, and those that it does not select MUST NOT unless nodeAffinityPolicy is Ignore."},
		{ID: "scheduling/topology-spread-revisions", Run: topologySpreadRevisions, Reference: spreading,
			Requirement: "With matchLabelKeys only pods that have the pod's own values of those labels MUST count."},
	}
}

// evenly has the pods of an app be spread over zones with a skew of at most one.
func evenly(change func(*corev1.TopologySpreadConstraint)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		constraint := corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: zoneKey,
			WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}}}
		if change != nil {
			change(&constraint)
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, constraint)
	}
}

// zoneOf is the zone of a node that addZones made.
func zoneOf(t *suite.T, node string) string { return node[len(t.Namespace)+1:][:1] }

func topologySpread(ctx context.Context, t *suite.T) {
	addZones(ctx, t, "a1", "a2", "a3", "b1")
	count := map[string]int{}
	for i := range 6 {
		count[zoneOf(t, place(ctx, t, small(t, fmt.Sprint("p", i), "even", evenly(nil))))]++
	}
	t.Expect(count).To(Equal(map[string]int{"a": 3, "b": 3}))
	// No room in zone b: what would make the skew two has to wait, though zone a has plenty.
	place(ctx, t, pod(t, "filler", on("b1", cpu("700m"))))
	place(ctx, t, small(t, "p6", "even", evenly(nil)))
	t.CreatePod(ctx, small(t, "p7", "even", evenly(nil)))
	t.Expect(refused(ctx, t, "p7").Message).To(ContainSubstring("didn't match pod topology spread constraints"))
	remove(ctx, t, "filler")
	t.Expect(zoneOf(t, bound(ctx, t, "p7"))).To(Equal("b"))
}

func topologySpreadAnyway(ctx context.Context, t *suite.T) {
	addZones(ctx, t, "a1", "b1")
	prefer := evenly(func(c *corev1.TopologySpreadConstraint) { c.WhenUnsatisfiable = corev1.ScheduleAnyway })
	for i := range 3 {
		place(ctx, t, small(t, fmt.Sprint("a", i), "soft", on("a1", prefer)))
	}
	// By what is free, zone a would be chosen.
	place(ctx, t, pod(t, "filler", on("b1", cpu("800m"))))
	t.Expect(zoneOf(t, place(ctx, t, small(t, "free", "soft", prefer)))).To(Equal("b"), "the emptier zone is preferred")
	place(ctx, t, pod(t, "rest", on("b1", cpu("100m"))))
	t.Expect(zoneOf(t, place(ctx, t, small(t, "bent", "soft", prefer)))).To(Equal("a"), "zone b has no room")
}

func topologySpreadDomains(ctx context.Context, t *suite.T) {
	addZones(ctx, t, "a1")
	two := evenly(func(c *corev1.TopologySpreadConstraint) { c.MinDomains = ptr.To[int32](2) })
	place(ctx, t, small(t, "one", "wide", two))
	t.CreatePod(ctx, small(t, "two", "wide", two))
	t.Expect(refused(ctx, t, "two").Message).To(ContainSubstring("didn't match pod topology spread constraints"),
		"with fewer domains than minDomains the least count is zero")
	remove(ctx, t, "one")
	bound(ctx, t, "two")
	t.CreatePod(ctx, small(t, "three", "wide", two))
	refused(ctx, t, "three")
	late := addZones(ctx, t, "b1")
	t.Expect(bound(ctx, t, "three")).To(Equal(late[0]))
}

// topologySpreadPolicies: whether nodes that a pod can't use count as domains is for it to say.
func topologySpreadPolicies(ctx context.Context, t *suite.T) {
	addZones(ctx, t, "a1")
	addNode(ctx, t, "b1", func(n *corev1.Node) {
		n.Labels[zoneKey] = "b"
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "team", Value: "red", Effect: corev1.TaintEffectNoSchedule})
	})
	honor := evenly(func(c *corev1.TopologySpreadConstraint) {
		c.NodeTaintsPolicy = ptr.To(corev1.NodeInclusionPolicyHonor)
	})
	for i := range 3 {
		place(ctx, t, small(t, fmt.Sprint("honor-", i), "honor", honor))
	}
	ignore := evenly(nil)
	place(ctx, t, small(t, "ignore-0", "ignore", ignore))
	t.CreatePod(ctx, small(t, "ignore-1", "ignore", ignore))
	t.Expect(refused(ctx, t, "ignore-1").Message).To(ContainSubstring("untolerated taint"))
	for i := range 2 {
		place(ctx, t, small(t, fmt.Sprint("selects-", i), "selects", on("a1", evenly(nil))))
	}
	all := evenly(func(c *corev1.TopologySpreadConstraint) {
		c.NodeAffinityPolicy = ptr.To(corev1.NodeInclusionPolicyIgnore)
	})
	place(ctx, t, small(t, "all-0", "all", on("a1", all)))
	t.CreatePod(ctx, small(t, "all-1", "all", on("a1", all)))
	t.Expect(refused(ctx, t, "all-1").Message).To(ContainSubstring("didn't match pod topology spread constraints"))
}

func topologySpreadRevisions(ctx context.Context, t *suite.T) {
	addZones(ctx, t, "a1", "b1")
	of := func(revision string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Labels["revision"] = revision
			evenly(func(c *corev1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"revision"} })(p)
		}
	}
	// With a pod in zone a, the next one of a revision belongs into zone b, though another revision has two there.
	for i := range 2 {
		place(ctx, t, small(t, fmt.Sprint("old-", i), "rolling", on("b1", of("1"))))
	}
	place(ctx, t, small(t, "first", "rolling", on("a1", of("2"))))
	t.Expect(zoneOf(t, place(ctx, t, small(t, "second", "rolling", of("2"))))).To(Equal("b"))
}
