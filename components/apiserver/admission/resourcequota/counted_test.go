package resourcequota

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// volume is a claim with the class of attributes that it asks for, and what it got.
func volume(class, size, granted string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		Spec: corev1.PersistentVolumeClaimSpec{
			Resources: corev1.VolumeResourceRequirements{Requests: list("storage", size)}}}
	if class != "" {
		c.Spec.VolumeAttributesClassName = &class
	}
	if granted != "" {
		c.Status.AllocatedResources = list("storage", granted)
	}
	return c
}

func ofGold(hard, used corev1.ResourceList) *corev1.ResourceQuota {
	q := newQuota("q", hard, used)
	q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
		{ScopeName: corev1.ResourceQuotaScopeVolumeAttributesClass, Operator: corev1.ScopeSelectorOpIn,
			Values: []string{"gold"}}}}
	return q
}

func devices(n int64) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{
				{Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu",
					AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: n}}}}}}
}

// TestUpdates: what an object uses more is charged; all of it where a quota is about the object only now.
func TestUpdates(t *testing.T) {
	pods, claims, resourceClaims := corev1.Resource("pods"), corev1.Resource("persistentvolumeclaims"),
		resourcev1.Resource("resourceclaims")
	ending := pod(list("cpu", "1"), nil)
	ending.Spec.ActiveDeadlineSeconds = ptr.To[int64](5)
	const of = "gpu.deviceclass.resource.k8s.io/devices"
	for _, c := range []struct {
		name, sub string
		quota     *corev1.ResourceQuota
		resource  schema.GroupResource
		obj, old  runtime.Object
		want      string
		used      corev1.ResourceList
	}{
		{"pod that is to end", "",
			newQuota("q", list("pods", "5", "cpu", "5"), list("pods", "0", "cpu", "0"),
				corev1.ResourceQuotaScopeTerminating), pods, ending, pod(list("cpu", "1"), nil), "",
			list("pods", "1", "cpu", "1")},
		{"no place for it", "", newQuota("q", list("pods", "0"), list("pods", "0"),
			corev1.ResourceQuotaScopeTerminating), pods, ending, pod(list("cpu", "1"), nil),
			"exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0", list("pods", "0")},
		{"in either scope", "", newQuota("q", list("pods", "1"), list("pods", "1")), pods, ending,
			pod(list("cpu", "1"), nil), "", list("pods", "1")},
		{"pod as before", "", newQuota("q", list("pods", "1"), nil), pods, ending, ending, "", nil},
		{"class of attributes", "", ofGold(list("requests.storage", "9Gi"), list("requests.storage", "1Gi")), claims,
			volume("gold", "2Gi", ""), volume("silver", "2Gi", ""), "", list("requests.storage", "3Gi")},
		{"class as before", "", ofGold(list("requests.storage", "9Gi"), list("requests.storage", "2Gi")), claims,
			volume("gold", "3Gi", ""), volume("gold", "2Gi", ""), "", list("requests.storage", "3Gi")},
		{"class that it has", "", ofGold(list("requests.storage", "1Gi"), list("requests.storage", "0")), claims,
			volume("gold", "2Gi", ""), volume("", "2Gi", ""),
			"exceeded quota: q, requested: requests.storage=2Gi, used: requests.storage=0, limited: requests.storage=1Gi",
			list("requests.storage", "0")},
		{"what a volume got", "status", newQuota("q", list("requests.storage", "2Gi"), list("requests.storage", "2Gi")),
			claims, volume("", "2Gi", "4Gi"), volume("", "2Gi", ""), "", list("requests.storage", "4Gi")},
		{"status of another", "status",
			newQuota("q", list("services.loadbalancers", "0"), list("services.loadbalancers", "0")),
			corev1.Resource("services"),
			&corev1.Service{Spec: corev1.ServiceSpec{Type: "LoadBalancer"}}, &corev1.Service{}, "",
			list("services.loadbalancers", "0")},
		{"devices", "", newQuota("q", list(of, "3"), list(of, "2")), resourceClaims, devices(4), devices(2),
			"exceeded quota: q, requested: " + of + "=2", list(of, "2")},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := &objectstest.Store{}
			store.Put(kind, c.quota)
			p, err := New(store, clock.RealClock{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = p.Validate(context.Background(),
				admission.NewAttributesRecord(c.obj, c.old, schema.GroupVersionKind{}, "ns", "p",
					c.resource.WithVersion("v1"), c.sub, admission.Update, nil, false, nil), nil)
			if (err == nil) != (c.want == "") ||
				err != nil && (!strings.Contains(err.Error(), c.want) || !apierrors.IsForbidden(err)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			now := used(t, store, "q")
			for name, want := range c.used {
				if got := now[name]; got.Cmp(want) != 0 {
					t.Errorf("used %s=%s, want %s", name, got.String(), want.String())
				}
			}
		})
	}
}

// TestWhatQuotasAreAbout: some resources are none of their business, and of others all that may be charged must be
// known.
func TestWhatQuotasAreAbout(t *testing.T) {
	store := &objectstest.Store{}
	store.Put(resourcev1.Resource("deviceclasses"),
		&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "nic"},
			Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: ptr.To("example.com/nic")}})
	store.Put(kind, newQuota("q", list(
		"count/events", "0", "count/events.events.k8s.io", "0", "count/bindings", "0",
		"count/localsubjectaccessreviews.authorization.k8s.io", "0",
		"pods", "9", "requests.cpu", "9", "limits.memory", "9", "requests.example.com/nic", "9",
		"requests.example.com/other", "9",
		"count/resourceclaims.resource.k8s.io", "9", "requests.deviceclass.resource.kubernetes.io/nic", "9",
		"requests.deviceclass.resource.kubernetes.io/gone", "9",
		"requests.storage", "9", "slow.storageclass.storage.k8s.io/persistentvolumeclaims", "9",
		"persistentvolumeclaims", "9", "services", "9",
	), list("persistentvolumeclaims", "0", "services", "0")))
	whole := pod(nil, nil)
	whole.Spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu", "1")}
	empty := pod(nil, nil)
	empty.Spec.Resources = &corev1.ResourceRequirements{}
	for _, c := range []struct {
		name     string
		resource schema.GroupResource
		obj      runtime.Object
		want     string
	}{
		{"event", corev1.Resource("events"), &corev1.Event{}, ""},
		{"event of the new group", schema.GroupResource{Group: "events.k8s.io", Resource: "events"}, &corev1.Event{},
			""},
		{"binding", corev1.Resource("bindings"), &corev1.Binding{}, ""},
		{"review", schema.GroupResource{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"},
			&corev1.Binding{}, ""},
		{"service", corev1.Resource("services"), &corev1.Service{}, ""},
		{"pod that names nothing", corev1.Resource("pods"), pod(nil, nil),
			"failed quota: q: must specify limits.memory for: c; requests.cpu for: c"},
		{"pod that names nothing as a whole", corev1.Resource("pods"), empty,
			"failed quota: q: must specify limits.memory for: c; requests.cpu for: c"},
		{"pod", corev1.Resource("pods"), whole,
			"status unknown for quota: q, resources: " +
				"limits.memory,pods,requests.cpu,requests.deviceclass.resource.kubernetes.io/gone," +
				"requests.deviceclass.resource.kubernetes.io/nic,requests.example.com/nic,requests.example.com/other"},
		{"claim", corev1.Resource("persistentvolumeclaims"), volume("", "1Gi", ""),
			"status unknown for quota: q, resources: " +
				"persistentvolumeclaims,requests.storage,slow.storageclass.storage.k8s.io/persistentvolumeclaims"},
		{"devices", resourcev1.Resource("resourceclaims"), devices(1),
			"status unknown for quota: q, resources: " +
				"count/resourceclaims.resource.k8s.io,requests.deviceclass.resource.kubernetes.io/nic,requests.example.com/nic"},
	} {
		err := validate(store, c.resource, c.obj, nil, false)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: got  %v\nwant %s", c.name, err, c.want)
		}
	}
}
