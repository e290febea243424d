package replicaset

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/reference"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/runner"
)

// TestControllersKeepTheirForm: what is seen as a ReplicaSet is written as the ReplicationController that it is, and
// events are about that.
func TestControllersKeepTheirForm(t *testing.T) {
	rc := &v1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", UID: "u", Generation: 4},
		Spec: v1.ReplicationControllerSpec{
			Replicas: ptr.To(int32(3)), MinReadySeconds: 7, Selector: map[string]string{"app": "web"},
			Template: &v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}},
		},
		Status: v1.ReplicationControllerStatus{
			Replicas: 5, FullyLabeledReplicas: 4, ReadyReplicas: 3, AvailableReplicas: 2, ObservedGeneration: 4,
			Conditions: []v1.ReplicationControllerCondition{{Type: v1.ReplicationControllerReplicaFailure,
				Status: v1.ConditionTrue, Reason: "r", Message: "m"}},
		},
	}
	client := fake.NewClientset(rc)
	form := replicationControllers{env: runner.Env{Client: client}}
	set, err := form.live(t.Context(), "ns", "web")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := form.writeStatus(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	got, err := client.CoreV1().ReplicationControllers("ns").Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(got.Spec, rc.Spec) || !equality.Semantic.DeepEqual(got.Status, rc.Status) {
		t.Errorf("got %+v\nwant %+v", got, rc)
	}
	ref, err := reference.GetReference(scheme.Scheme, set)
	if err != nil || ref.Kind != "ReplicationController" || ref.APIVersion != "v1" {
		t.Errorf("events are about %+v, %v", ref, err)
	}
	if _, err := form.live(t.Context(), "ns", "gone"); err == nil {
		t.Error("no error for one that is gone")
	}
}
