package apiserver_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestFieldsOfEventsAreOfOneGroup: managed fields of one API group are dropped by a write in the other.
func TestFieldsOfEventsAreOfOneGroup(t *testing.T) {
	client := start(t).client(t)
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "default"}, Reason: "R", Type: "Normal",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p", Namespace: "default"},
	}
	if _, err := client.CoreV1().Events("default").Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	label := []byte(`{"metadata":{"labels":{"a":"b"}}}`)
	got, err := client.EventsV1().Events("default").Patch(t.Context(), "e", types.MergePatchType, label,
		metav1.PatchOptions{})
	if err != nil || len(got.ManagedFields) != 1 || got.ManagedFields[0].APIVersion != "events.k8s.io/v1" {
		t.Fatalf("%v, %v", got.ManagedFields, err)
	}
	label = []byte(`{"metadata":{"labels":{"a":"c"}}}`)
	back, err := client.CoreV1().Events("default").Patch(t.Context(), "e", types.MergePatchType, label,
		metav1.PatchOptions{})
	if err != nil || len(back.ManagedFields) != 1 || back.ManagedFields[0].APIVersion != "v1" {
		t.Fatalf("%v, %v", back.ManagedFields, err)
	}
	// An invalid finalizer is rejected in the newer API alone.
	finalizer := []byte(`{"metadata":{"finalizers":["nobody"]}}`)
	if _, err := client.EventsV1().Events("default").Patch(t.Context(), "e", types.MergePatchType, finalizer,
		metav1.PatchOptions{}); err == nil {
		t.Error("it was taken")
	}
	if _, err := client.CoreV1().Events("default").Patch(t.Context(), "e", types.MergePatchType, finalizer,
		metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
}

// TestTakenNamesWhileDeleted: a create is told that what has its name is on its way out, also where a name could have
// been generated.
func TestTakenNamesWhileDeleted(t *testing.T) {
	maps := start(t).client(t).CoreV1().ConfigMaps("default")
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "h", Finalizers: []string{"a.b/c"}}}
	if _, err := maps.Create(t.Context(), held, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(t.Context(), "h", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for generate, want := range map[string]string{
		"":  `object is being deleted: configmaps "h" already exists`,
		"h": `object is being deleted: configmaps "h" already exists, the server was not able to generate a unique name for the object`,
	} {
		_, err := maps.Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "h", GenerateName: generate}}, metav1.CreateOptions{})
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestAppliesToEventsOfOtherGroups: a manager of the other group causes no conflict, counts as a manager, and loses
// nothing but its entry in managedFields.
func TestAppliesToEventsOfOtherGroups(t *testing.T) {
	client := start(t).client(t)
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "default", Labels: map[string]string{"a": "b"}},
		Reason:     "R", Type: "Normal",
		InvolvedObject:      corev1.ObjectReference{Kind: "Pod", Name: "p", Namespace: "default"},
		EventTime:           metav1.NowMicro(),
		ReportingController: "example.com/c", ReportingInstance: "i", Action: "a",
	}
	if _, err := client.CoreV1().Events("default").Create(t.Context(), event,
		metav1.CreateOptions{FieldManager: "first"}); err != nil {
		t.Fatal(err)
	}
	label := []byte(`{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"e","labels":{"a":"c"}}}`)
	got, err := client.EventsV1().Events("default").Patch(t.Context(), "e", types.ApplyPatchType, label,
		metav1.PatchOptions{FieldManager: "m"})
	if err != nil || got.Labels["a"] != "c" || len(got.ManagedFields) != 1 || got.ManagedFields[0].Manager != "m" {
		t.Fatalf("labels %v, managed by %v: %v", got.Labels, got.ManagedFields, err)
	}
	nothing := []byte(`{"apiVersion":"v1","kind":"Event","metadata":{"name":"e"},"reason":"R"}`)
	back, err := client.CoreV1().Events("default").Patch(t.Context(), "e", types.ApplyPatchType, nothing,
		metav1.PatchOptions{FieldManager: "m"})
	if err != nil || back.Labels["a"] != "c" || len(back.ManagedFields) != 1 || back.ManagedFields[0].Time == nil {
		t.Errorf("labels %v, managed by %v: %v", back.Labels, back.ManagedFields, err)
	}
	other := types.UID("other")
	err = client.EventsV1().Events("default").Delete(t.Context(), "e",
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	if err == nil || !strings.Contains(err.Error(), `on Event "e"`) {
		t.Errorf("deleting another is refused with %v", err)
	}
}
