package core

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// TestDoorsOfPods: /ephemeralcontainers and /resize take nothing but what they are for, and no field is reset for field
// managers.
func TestDoorsOfPods(t *testing.T) {
	k := pods(api.Deps{})
	old := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"a": "b"},
			Finalizers: []string{"a.io/f"}, Generation: 3,
			OwnerReferences: []metav1.OwnerReference{{Name: "o"}}, DeletionTimestamp: &metav1.Time{},
			DeletionGracePeriodSeconds: ptr.To[int64](30),
		},
		Spec:   corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for door, change := range map[string]func(p *corev1.Pod){
		"ephemeralcontainers": func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{
				{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "i"}}}
		},
		"resize": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
		},
	} {
		s := k.Subresource(door).Strategy
		if len(s.ResetFields) > 0 {
			t.Errorf("%s resets %v", door, s.ResetFields)
		}
		obj := old.DeepCopy()
		change(obj)
		want := obj.DeepCopy()
		obj.Labels, obj.Annotations, obj.Finalizers, obj.OwnerReferences, obj.DeletionTimestamp = nil, nil, nil, nil,
			nil
		obj.GenerateName, obj.DeletionGracePeriodSeconds, obj.ResourceVersion, obj.ManagedFields = "g", nil, "7",
			[]metav1.ManagedFieldsEntry{{Manager: "m"}}
		obj.Spec.NodeName, obj.Spec.Containers[0].Image, obj.Status.Phase = "", "j", ""
		want.GenerateName, want.DeletionGracePeriodSeconds, want.ResourceVersion, want.ManagedFields = "g", nil, "7",
			obj.ManagedFields
		want.Generation = 4
		before := old.DeepCopy()
		if s.PrepareUpdate(t.Context(), obj, old); !reflect.DeepEqual(obj, want) {
			t.Errorf("%s made\n%+v, want\n%+v", door, obj, want)
		}
		if !reflect.DeepEqual(old, before) {
			t.Errorf("%s changed the stored pod", door)
		}
	}
}

// TestEphemeralStopSignal: a field of a disabled feature can't be set through any endpoint.
func TestEphemeralStopSignal(t *testing.T) {
	old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	obj := old.DeepCopy()
	obj.Spec.EphemeralContainers = []corev1.EphemeralContainer{
		{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "e", Lifecycle: &corev1.Lifecycle{StopSignal: ptr.To(corev1.SIGTERM)},
		}}}
	if (partsOfPods{}).ephemeral(t.Context(), obj, old); obj.Spec.EphemeralContainers[0].Lifecycle != nil ||
		obj.Generation != 2 {
		t.Errorf("got %+v", obj)
	}
}

// TestPodAddressesAreNotSelected: status.podIPs may be asked for, but no pod has a value of it.
func TestPodAddressesAreNotSelected(t *testing.T) {
	p := &corev1.Pod{Status: corev1.PodStatus{PodIP: "1.2.3.4", PodIPs: []corev1.PodIP{{IP: "1.2.3.4"}}}}
	set := pods(api.Deps{}).FieldSet(p)
	if ips, known := set["status.podIPs"]; !known || ips != "" || set["status.podIP"] != "1.2.3.4" {
		t.Errorf("got %v", set)
	}
}
