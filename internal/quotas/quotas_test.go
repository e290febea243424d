package quotas

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/utils/ptr"
)

// list reads name, quantity, name, quantity ...
func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func pod(limits corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "1"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c",
			Resources: corev1.ResourceRequirements{Requests: limits, Limits: limits}}}}}
}

// there is a cluster with a class of devices that are an extended resource too, and a pod that asks for it.
type there struct{}

func (there) DeviceClass(name string) *resourcev1.DeviceClass {
	switch name {
	case "gpu":
		return &resourcev1.DeviceClass{Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: ptr.To("example.com/gpu")}}
	case "nic":
		return &resourcev1.DeviceClass{}
	}
	return nil
}

func (there) Pod(namespace, name string) *corev1.Pod {
	if namespace == "ns" && name == "p" {
		return pod(list("example.com/gpu", "2"))
	}
	return nil
}

// ResourceClaims are what the scheduler made for the pod, the oldest of which is "first".
func (there) ResourceClaims(string) []*resourcev1.ResourceClaim {
	return []*resourcev1.ResourceClaim{named("second", ownedBy("", claim())), named("first", ownedBy("", claim()))}
}

func named(name string, c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	c.Name = name
	return c
}

func exactly(class string, count int64) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class,
		AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count}}
}

func all(class string) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class,
		AllocationMode: resourcev1.DeviceAllocationModeAll}}
}

func first(requests ...resourcev1.DeviceRequest) (out resourcev1.DeviceRequest) {
	for _, r := range requests {
		out.FirstAvailable = append(out.FirstAvailable, resourcev1.DeviceSubRequest{
			DeviceClassName: r.Exactly.DeviceClassName, AllocationMode: r.Exactly.AllocationMode,
			Count: r.Exactly.Count})
	}
	return out
}

func claim(requests ...resourcev1.DeviceRequest) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}}}
}

func ownedBy(uid string, c *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "1",
		Controller: ptr.To(true)}}
	if uid != "" {
		c.OwnerReferences[0].UID = "2"
	}
	return c
}

func TestUsage(t *testing.T) {
	now := time.Now()
	gone := func(ago time.Duration) *corev1.Pod {
		p := pod(list("cpu", "1"))
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(now.Add(-ago))), ptr.To[int64](30)
		return p
	}
	ended := pod(list("cpu", "1"))
	ended.Status.Phase = corev1.PodFailed
	claims, pods := resourcev1.Resource("resourceclaims"), corev1.Resource("pods")
	const ofClaims = "count/resourceclaims.resource.k8s.io"
	for name, c := range map[string]struct {
		of   schema.GroupResource
		obj  runtime.Object
		want corev1.ResourceList
	}{
		"anything": {schema.GroupResource{Group: "example.com", Resource: "widgets"}, &corev1.ConfigMap{},
			list("count/widgets.example.com", "1")},
		"plain": {corev1.Resource("configmaps"), &corev1.ConfigMap{},
			list("count/configmaps", "1", "configmaps", "1")},
		"pod": {pods, pod(list("cpu", "1", "hugepages-2Mi", "2Mi", "example.com/x",
			"3")), list("count/pods", "1", "pods", "1", "cpu", "1", "requests.cpu", "1", "limits.cpu", "1",
			"hugepages-2Mi", "2Mi", "requests.hugepages-2Mi", "2Mi", "requests.example.com/x", "3")},
		"pod that has ended": {pods, ended, list("count/pods", "1")},
		"pod that goes": {pods, gone(time.Second),
			list("count/pods", "1", "pods", "1", "cpu", "1", "requests.cpu", "1", "limits.cpu", "1")},
		"pod that should have gone": {pods, gone(time.Minute), list("count/pods", "1")},
		"devices": {claims, claim(exactly("gpu", 3), exactly("nic", 4),
			exactly("gpu", 1)), list(ofClaims, "1", "gpu.deviceclass.resource.k8s.io/devices", "4",
			"nic.deviceclass.resource.k8s.io/devices", "4", "requests.deviceclass.resource.kubernetes.io/gpu", "4",
			"requests.deviceclass.resource.kubernetes.io/nic", "4", "requests.example.com/gpu", "4")},
		"all devices": {claims, claim(all("nic")), list(ofClaims, "1", "nic.deviceclass.resource.k8s.io/devices", "32",
			"requests.deviceclass.resource.kubernetes.io/nic", "32")},
		"no such class": {claims, claim(exactly("none",
			2)), list(ofClaims, "1", "none.deviceclass.resource.k8s.io/devices", "2",
			"requests.deviceclass.resource.kubernetes.io/none", "2")},
		"whichever there are": {claims, claim(first(exactly("nic", 2), exactly("nic", 5), exactly("none", 1)),
			first(all("nic"))), list(ofClaims, "1", "nic.deviceclass.resource.k8s.io/devices", "37",
			"none.deviceclass.resource.k8s.io/devices", "1", "requests.deviceclass.resource.kubernetes.io/nic", "37",
			"requests.deviceclass.resource.kubernetes.io/none", "1")},
		"what a pod was charged for": {claims, named("first",
			ownedBy("", claim(exactly("gpu", 3)))), list(ofClaims, "1", "gpu.deviceclass.resource.k8s.io/devices", "3",
			"requests.deviceclass.resource.kubernetes.io/gpu", "3", "requests.example.com/gpu", "1")},
		"another pod": {claims, ownedBy("2",
			claim(exactly("gpu", 3))), list(ofClaims, "1", "gpu.deviceclass.resource.k8s.io/devices", "3",
			"requests.deviceclass.resource.kubernetes.io/gpu", "3", "requests.example.com/gpu", "3")},
	} {
		if got := Usage(c.of, c.obj, there{}, now); !quota.Equals(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
