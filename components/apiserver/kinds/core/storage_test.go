package core

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestPhaseTransitions: the time is that of the last change, unless the client says another.
func TestPhaseTransitions(t *testing.T) {
	now, then, given := metav1.Unix(3, 0), metav1.Unix(1, 0), metav1.Unix(2, 0)
	for name, c := range map[string]struct {
		phase    corev1.PersistentVolumePhase
		at, want *metav1.Time
	}{
		"the same":              {"Bound", nil, &then},
		"the same, later":       {"Bound", &given, &given},
		"another":               {"Released", nil, &now},
		"another, as it was":    {"Released", &then, &now},
		"another, at some time": {"Released", &given, &given},
	} {
		old := &corev1.PersistentVolume{
			Status: corev1.PersistentVolumeStatus{Phase: "Bound", LastPhaseTransitionTime: &then}}
		got := &corev1.PersistentVolume{
			Status: corev1.PersistentVolumeStatus{Phase: c.phase, LastPhaseTransitionTime: c.at}}
		PrepareVolumeStatus(got, old, time.Unix(3, 0))
		if !got.Status.LastPhaseTransitionTime.Equal(c.want) {
			t.Errorf("%s: %v, want %v", name, got.Status.LastPhaseTransitionTime, c.want)
		}
	}
}

// TestSourcesThatWereThere stay, though a new claim couldn't have them.
func TestSourcesThatWereThere(t *testing.T) {
	group, space := "x.y", "z"
	local := &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "K", Name: "n"}
	ref := &corev1.TypedObjectReference{APIGroup: &group, Kind: "K", Name: "n"}
	far := ref.DeepCopy()
	far.Namespace = &space
	type spec = corev1.PersistentVolumeClaimSpec
	for name, c := range map[string]struct {
		is             spec
		was            *spec
		local, ref, ns bool
	}{
		"new, local":     {spec{DataSource: local}, nil, false, false, false},
		"new, far":       {spec{DataSourceRef: far}, nil, false, false, false},
		"had none, far":  {spec{DataSourceRef: far}, &spec{}, false, false, false},
		"had one, local": {spec{DataSource: local}, &spec{DataSource: local, DataSourceRef: ref}, true, true, false},
		"had one, far":   {spec{DataSourceRef: far}, &spec{DataSource: local, DataSourceRef: ref}, false, true, true},
	} {
		NormalizeSource(&c.is, c.was)
		if (c.is.DataSource != nil) != c.local || (c.is.DataSourceRef != nil) != c.ref ||
			c.ns && c.is.DataSourceRef.Namespace == nil {
			t.Errorf("%s: %+v, %+v", name, c.is.DataSource, c.is.DataSourceRef)
		}
	}
}

func TestNamesOfControllers(t *testing.T) {
	for name, c := range map[string]struct{ prefix, bad bool }{"a": {}, "A": {bad: true}, "B": {prefix: true}} {
		if got := ControllerName(name, c.prefix); (len(got) > 0) != c.bad {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestGroupsOfSources are looked at where a claim had none.
func TestGroupsOfSources(t *testing.T) {
	bad, good := "x:1", "x.y"
	ref := func(group *string) *corev1.TypedObjectReference {
		return &corev1.TypedObjectReference{APIGroup: group, Kind: "K", Name: "n"}
	}
	count := func(old *corev1.TypedObjectReference) (n int) {
		is, was := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{}
		is.Spec.DataSourceRef, was.Spec.DataSourceRef = ref(&bad), old
		for _, err := range ValidateClaimUpdate(is, was) {
			if err.Field == "spec.dataSourceRef.apiGroup" {
				n++
			}
		}
		return n
	}
	if a, b := count(nil), count(ref(&good)); a != 1 || b != 0 {
		t.Error(a, b)
	}
	far, space := ref(&good), "/x"
	far.Namespace = &space
	is := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{DataSourceRef: far}}
	if errs := ValidateClaimUpdate(is, is); !slices.ContainsFunc(errs,
		func(e *field.Error) bool { return e.Field == "spec.dataSourceRef.namespace" }) {
		t.Error(errs)
	}
}

// TestValuesThatWereThere: a volume and a claim may keep values that no label has.
func TestValuesThatWereThere(t *testing.T) {
	v := &corev1.PersistentVolume{
		Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "k", Operator: "In", Values: []string{"a b"}}}}}}}}}
	of := func(errs field.ErrorList, at string) (n int) {
		for _, err := range errs {
			if err.Field == at {
				n++
			}
		}
		return n
	}
	const nodes = "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].values[0]"
	if of(ValidateVolume(v), nodes) != 1 || of(ValidateVolumeUpdate(v, &corev1.PersistentVolume{}), nodes) != 1 {
		t.Error("a volume may get them")
	}
	if errs := slices.Concat(ValidateVolumeAfter(v, v), ValidateVolumeUpdate(v, v)); of(errs, nodes) > 0 {
		t.Error(errs)
	}
	c := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{Selector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "In", Values: []string{"a b"}}}}}}
	const values = "spec.selector.matchExpressions[0].values[0]"
	if of(ValidateClaim(c), values) != 1 || of(ValidateClaimUpdate(c, &corev1.PersistentVolumeClaim{}), values) != 1 {
		t.Error("a claim may get them")
	}
	if errs := ValidateClaimUpdate(c, c); of(errs, values) > 0 {
		t.Error(errs)
	}
}
