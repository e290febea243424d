package static

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPlan(t *testing.T) {
	running := parse(t, "n", "/m/web", web)
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node-uid"}}
	good := mirrorOf(running, node)
	outdated, deleted, ordinary := good.DeepCopy(), good.DeepCopy(), good.DeepCopy()
	outdated.Annotations[v1.MirrorPodAnnotationKey] = "other"
	deleted.DeletionTimestamp = new(metav1.Now())
	delete(ordinary.Annotations, v1.MirrorPodAnnotationKey)
	for name, test := range map[string]struct {
		static, mirror *v1.Pod
		known          bool
		want           step
	}{
		"nothing":               {},
		"left over":             {mirror: good, want: step{remove: true}},
		"not running yet":       {mirror: good, known: true},
		"manifests not read":    {mirror: outdated, known: true},
		"runs without":          {static: running, known: true, want: step{create: true}},
		"runs with":             {static: running, mirror: good, known: true, want: step{report: true}},
		"of an older manifest":  {running, outdated, true, step{remove: true, create: true}},
		"being deleted":         {running, deleted, true, step{remove: true, create: true}},
		"annotation taken away": {running, ordinary, true, step{remove: true, create: true}},
	} {
		if got := plan(test.static, test.mirror, test.known); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestMirrorOf(t *testing.T) {
	static := parse(t, "n", "/m/web", web)
	mirror := mirrorOf(static, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node-uid"}})
	if mirror.Annotations["kubernetes.io/config.mirror"] != string(static.UID) || !IsMirror(mirror) || Is(mirror) {
		t.Errorf("annotations %v", mirror.Annotations)
	}
	if o := mirror.OwnerReferences; len(o) != 1 || o[0].Kind != "Node" || o[0].APIVersion != "v1" || o[0].Name != "n" ||
		o[0].UID != "node-uid" || o[0].Controller == nil || !*o[0].Controller || o[0].BlockOwnerDeletion != nil {
		t.Errorf("owners %+v", o)
	}
	if IsMirror(static) {
		t.Error("the static pod was changed")
	}
}

func TestMergedKeepsConditionsOfOthers(t *testing.T) {
	mirror := &v1.Pod{Status: v1.PodStatus{Conditions: []v1.PodCondition{
		{Type: "example.com/gate", Status: v1.ConditionTrue}, {Type: v1.PodReady, Status: v1.ConditionFalse},
	}}}
	got := merged(mirror, &v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}})
	if len(got.Conditions) != 2 || got.Conditions[0].Status != v1.ConditionTrue ||
		got.Conditions[1].Type != "example.com/gate" {
		t.Errorf("conditions %+v", got.Conditions)
	}
}
