package declaredfeatures

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// resized is a pod with resources of its own.
func resized(cpu, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
		NodeName:  node,
		Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}},
	}}
}

func TestNodesSayWhatTheyKnow(t *testing.T) {
	const feature = "InPlacePodLevelResourcesVerticalScaling"
	store := &objectstest.Store{}
	for name, declared := range map[string][]string{"able": {feature}, "unable": nil} {
		store.Put(corev1.Resource("nodes"),
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
				Status: corev1.NodeStatus{DeclaredFeatures: declared}})
	}
	p, err := New(store, "v1.36.3")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ node, from, to, sub, want string }{
		"declared": {"able", "1", "2", "resize", ""},
		"not declared": {"unable", "1", "2", "resize",
			`pods "p" is forbidden: pod update requires features ` + feature +
				` which are not available on node "unable"`},
		"no change": {"unable", "1", "1", "resize", ""},
		"of status": {"unable", "1", "2", "status", ""},
		"not bound": {"", "1", "2", "resize", ""},
		"no node":   {"gone", "1", "2", "", `pods "p" is forbidden: node "gone" not found`},
	} {
		err := p.Validate(context.Background(),
			admission.NewAttributesRecord(resized(c.to, c.node), resized(c.from, c.node), schema.GroupVersionKind{},
				"ns", "p",
				corev1.SchemeGroupVersion.WithResource("pods"), c.sub, admission.Update, nil, false, nil), nil)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
