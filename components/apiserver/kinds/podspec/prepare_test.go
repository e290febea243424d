package podspec

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// TestPrepareCreate: a pod starts pending, in generation 1, and says if it waits for gates.
func TestPrepareCreate(t *testing.T) {
	now := time.Unix(5, 0)
	gated := []corev1.PodCondition{{Type: "PodScheduled", Status: "False", Reason: "SchedulingGated",
		Message: "Scheduling is blocked due to non-empty scheduling gates", LastTransitionTime: metav1.NewTime(now)}}
	size := func(requests, limits corev1.ResourceList) func(p *corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: requests, Limits: limits}
		}
	}
	both := amounts("cpu", "1", "memory", "1Gi")
	for name, c := range map[string]struct {
		change func(p *corev1.Pod)
		want   corev1.PodStatus
	}{
		"best effort": {func(*corev1.Pod) {}, corev1.PodStatus{QOSClass: "BestEffort"}},
		"burstable":   {size(amounts("cpu", "1"), nil), corev1.PodStatus{QOSClass: "Burstable"}},
		"guaranteed":  {size(both, both), corev1.PodStatus{QOSClass: "Guaranteed"}},
		"half of it":  {size(amounts("cpu", "1"), amounts("cpu", "1")), corev1.PodStatus{QOSClass: "Burstable"}},
		"of nothing":  {size(amounts("cpu", "0"), nil), corev1.PodStatus{QOSClass: "BestEffort"}},
		"of an init container": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: both}}}
		}, corev1.PodStatus{QOSClass: "Burstable"}},
		"of the pod": {func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: both,
				Limits: both}
		},
			corev1.PodStatus{QOSClass: "Guaranteed"}},
		"said by the client": {func(p *corev1.Pod) { p.Status.QOSClass = "Guaranteed" },
			corev1.PodStatus{QOSClass: "Guaranteed"}},
		"status of the client": {func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: "Running", PodIP: "10.0.0.1", Conditions: gated}
			p.Generation = 7
		}, corev1.PodStatus{QOSClass: "BestEffort"}},
		"gated": {func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} },
			corev1.PodStatus{QOSClass: "BestEffort", Conditions: gated}},
	} {
		p := minimal()
		c.change(p)
		c.want.Phase = "Pending"
		if warnings := PrepareCreate(api.PodFeatures{}, p, now); len(warnings) > 0 {
			t.Errorf("%s: %q", name, warnings)
		}
		if !reflect.DeepEqual(p.Status, c.want) || p.Generation != 1 {
			t.Errorf("%s: generation %d, %+v", name, p.Generation, p.Status)
		}
	}
}

func TestTerminalAndRestartable(t *testing.T) {
	for phase, want := range map[corev1.PodPhase]bool{"Pending": false, "Running": false, "Unknown": false,
		"Succeeded": true, "Failed": true} {
		if Terminal(&corev1.Pod{Status: corev1.PodStatus{Phase: phase}}) != want {
			t.Errorf("%s: %t", phase, !want)
		}
	}
	for policy, want := range map[corev1.ContainerRestartPolicy]bool{"Always": true, "Never": false,
		"OnFailure": false} {
		if Restartable(&corev1.Container{RestartPolicy: &policy}) != want {
			t.Errorf("%s: %t", policy, !want)
		}
	}
	if Restartable(&corev1.Container{}) {
		t.Error("a container without a policy is a sidecar")
	}
}

// TestMergeMatchLabelKeys: keys become requirements with the values that the pod has; of others nothing is known.
func TestMergeMatchLabelKeys(t *testing.T) {
	labels := map[string]string{"a": "1", "b": "2"}
	base := func() *metav1.LabelSelector { return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}} }
	term := func(s *metav1.LabelSelector) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{LabelSelector: s, MatchLabelKeys: texts{"a", "none"},
			MismatchLabelKeys: texts{"b"}}
	}
	want := base()
	want.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: texts{"1"}},
		{Key: "b", Operator: "NotIn", Values: texts{"2"}}}
	spread := base()
	spread.MatchExpressions = want.MatchExpressions[:1]
	p := minimal()
	p.Labels = labels
	must, may := func() []corev1.PodAffinityTerm { return []corev1.PodAffinityTerm{term(base()), term(nil)} },
		func() []corev1.WeightedPodAffinityTerm {
			return []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: term(base())}}
		}
	p.Spec.Affinity = &corev1.Affinity{
		PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: must(),
			PreferredDuringSchedulingIgnoredDuringExecution: may()},
		PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: must(),
			PreferredDuringSchedulingIgnoredDuringExecution: may()}}
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{LabelSelector: base(),
		MatchLabelKeys: texts{"a", "none"}}, {MatchLabelKeys: texts{"a"}}}
	PrepareCreate(api.PodFeatures{}, p, time.Time{})
	a, b := p.Spec.Affinity.PodAffinity, p.Spec.Affinity.PodAntiAffinity
	for name, got := range map[string]*metav1.LabelSelector{
		"required":       a.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector,
		"preferred":      a.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm.LabelSelector,
		"anti required":  b.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector,
		"anti preferred": b.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm.LabelSelector,
	} {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if a.RequiredDuringSchedulingIgnoredDuringExecution[1].LabelSelector != nil ||
		p.Spec.TopologySpreadConstraints[1].LabelSelector != nil {
		t.Error("there is a selector where was none")
	}
	if got := p.Spec.TopologySpreadConstraints[0].LabelSelector; !reflect.DeepEqual(got, spread) {
		t.Errorf("spread: %+v", got)
	}
}

// TestKeepObserved: generations that a writer leaves out stay, condition by condition of a type.
func TestKeepObserved(t *testing.T) {
	list := func(pairs ...any) (out []corev1.PodCondition) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, corev1.PodCondition{Type: corev1.PodConditionType(pairs[i].(string)),
				ObservedGeneration: int64(pairs[i+1].(int))})
		}
		return out
	}
	for name, c := range map[string]struct {
		is, was, want     []corev1.PodCondition
		here, there, then int64
	}{
		"left out":         {list("A", 0), list("A", 3), list("A", 3), 0, 5, 5},
		"given":            {list("A", 4), list("A", 3), list("A", 4), 6, 5, 6},
		"new":              {list("B", 0), list("A", 3), list("B", 0), 0, 0, 0},
		"two of a type":    {list("A", 0, "A", 0), list("A", 3, "A", 4), list("A", 3, "A", 4), 0, 0, 0},
		"second given":     {list("A", 0, "A", 9), list("A", 3, "A", 4), list("A", 3, "A", 9), 0, 0, 0},
		"first given":      {list("A", 9, "A", 0), list("A", 3, "A", 4), list("A", 9, "A", 4), 0, 0, 0},
		"more of a type":   {list("A", 0, "A", 0), list("A", 3), list("A", 3, "A", 0), 0, 0, 0},
		"in another order": {list("B", 0, "A", 0), list("A", 3, "B", 4), list("B", 4, "A", 3), 0, 0, 0},
	} {
		is := &corev1.PodStatus{ObservedGeneration: c.here, Conditions: c.is}
		KeepObserved(is, &corev1.PodStatus{ObservedGeneration: c.there, Conditions: c.was})
		if !reflect.DeepEqual(is.Conditions, c.want) || is.ObservedGeneration != c.then {
			t.Errorf("%s: %+v", name, is)
		}
	}
}
