package resourcequota

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func newQuota(name string, hard, used corev1.ResourceList, scopes ...corev1.ResourceQuotaScope) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:   corev1.ResourceQuotaSpec{Hard: hard, Scopes: scopes},
		Status: corev1.ResourceQuotaStatus{Hard: hard, Used: used}}
}

func pod(requests, limits corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{
			{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}}}}
}

func validate(store objects.Store, gr schema.GroupResource, obj, old runtime.Object, dryRun bool) error {
	return limit(store, "", gr, obj, old, dryRun)
}

func limit(store objects.Store, config string, gr schema.GroupResource, obj, old runtime.Object, dryRun bool) error {
	op := admission.Create
	if old != nil {
		op = admission.Update
	}
	p, err := New(store, clock.RealClock{}, []byte(config))
	if err != nil {
		return err
	}
	return p.Validate(context.Background(),
		admission.NewAttributesRecord(obj, old, schema.GroupVersionKind{}, "ns", "p",
			gr.WithVersion("v1"), "", op, nil, dryRun, nil), nil)
}

func used(t *testing.T, store objects.Store, name string) corev1.ResourceList {
	t.Helper()
	q, err := objects.As[*corev1.ResourceQuota](store.Get(context.Background(), kind, "ns", name))
	if err != nil {
		t.Fatal(err)
	}
	return q.Status.Used
}

func TestCharges(t *testing.T) {
	pods := corev1.Resource("pods")
	service := func(kind corev1.ServiceType, ports int) *corev1.Service {
		return &corev1.Service{Spec: corev1.ServiceSpec{Type: kind, Ports: make([]corev1.ServicePort, ports)}}
	}
	claim := func(size string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("fast"),
			Resources: corev1.VolumeResourceRequirements{Requests: list("storage", size)}}}
	}
	deadline := pod(nil, nil)
	deadline.Spec.ActiveDeadlineSeconds = ptr.To[int64](5)
	for _, tt := range []struct {
		name     string
		quota    *corev1.ResourceQuota
		resource schema.GroupResource
		obj, old runtime.Object
		want     string              // part of the error
		used     corev1.ResourceList // afterwards
	}{
		{"fits", newQuota("q", list("pods", "2"), list("pods", "1")), pods, pod(nil, nil), nil, "", list("pods", "2")},
		{"full", newQuota("q", list("pods", "1"), list("pods", "1")), pods, pod(nil, nil), nil,
			"exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1", list("pods", "1")},
		{"compute", newQuota("q", list("requests.cpu", "2", "limits.memory", "2Gi"),
			list("requests.cpu", "1", "limits.memory", "0")), pods,
			pod(list("cpu", "500m"), list("memory", "1Gi")), nil, "",
			list("requests.cpu", "1500m", "limits.memory", "1Gi")},
		{"compute is not named", newQuota("q", list("requests.cpu", "2", "limits.memory", "2Gi"),
			list("requests.cpu", "1", "limits.memory", "0")), pods,
			pod(list("cpu", "500m"), nil), nil, "failed quota: q: must specify limits.memory for: c",
			list("requests.cpu", "1", "limits.memory", "0")},
		{"too much compute", newQuota("q", list("cpu", "1"), list("cpu", "900m")), pods, pod(list("cpu", "200m"), nil),
			nil,
			"exceeded quota: q, requested: cpu=200m, used: cpu=900m, limited: cpu=1", list("cpu", "900m")},
		{"status not known yet", newQuota("q", list("pods", "1"), nil), pods, pod(nil, nil), nil,
			"status unknown for quota: q, resources: pods", nil},
		{"extended resource", newQuota("q", list("requests.example.com/gpu", "1"),
			list("requests.example.com/gpu", "0")), pods,
			pod(list("example.com/gpu", "2"), list("example.com/gpu", "2")), nil, "exceeded quota",
			list("requests.example.com/gpu", "0")},
		{"scope that fits", newQuota("q", list("pods", "5"), list("pods", "0"), corev1.ResourceQuotaScopeBestEffort),
			pods, pod(nil, nil), nil, "", list("pods", "1")},
		{"scope that does not", newQuota("q", list("pods", "0"), list("pods", "0"),
			corev1.ResourceQuotaScopeNotBestEffort), pods, pod(nil, nil), nil, "", list("pods", "0")},
		{"terminating", newQuota("q", list("pods", "5"), list("pods", "0"), corev1.ResourceQuotaScopeTerminating), pods,
			deadline, nil, "", list("pods", "1")},
		{"scopes are about pods",
			newQuota("q", list("configmaps", "0"), list("configmaps", "0"), corev1.ResourceQuotaScopeBestEffort),
			corev1.Resource("configmaps"), &corev1.ConfigMap{}, nil, "", list("configmaps", "0")},
		{"plain name", newQuota("q", list("configmaps", "1"), list("configmaps", "1")), corev1.Resource("configmaps"),
			&corev1.ConfigMap{}, nil, "exceeded quota", list("configmaps", "1")},
		{"count of any kind", newQuota("q", list("count/widgets.example.com", "1"),
			list("count/widgets.example.com", "1")), schema.GroupResource{Group: "example.com", Resource: "widgets"},
			&corev1.ConfigMap{}, nil, "exceeded quota", list("count/widgets.example.com", "1")},
		{"node ports", newQuota("q", list("services.nodeports", "3"), list("services.nodeports", "1")),
			corev1.Resource("services"), service("NodePort", 2), nil, "", list("services.nodeports", "3")},
		{"service that becomes one with node ports",
			newQuota("q", list("services.nodeports", "3", "services", "1"),
				list("services.nodeports", "2", "services", "1")), corev1.Resource("services"),
			service("NodePort", 2), service("ClusterIP", 2), "exceeded quota: q, requested: services.nodeports=2",
			list("services.nodeports", "2", "services", "1")},
		{"claim", newQuota("q", list("requests.storage", "10Gi", "fast.storageclass.storage.k8s.io/requests.storage",
			"4Gi"), list("requests.storage", "0", "fast.storageclass.storage.k8s.io/requests.storage", "0")),
			corev1.Resource("persistentvolumeclaims"), claim("5Gi"), nil,
			"limited: fast.storageclass.storage.k8s.io/requests.storage=4Gi",
			list("requests.storage", "0", "fast.storageclass.storage.k8s.io/requests.storage", "0")},
		{"claim that grows", newQuota("q", list("requests.storage", "10Gi"), list("requests.storage", "4Gi")),
			corev1.Resource("persistentvolumeclaims"), claim("6Gi"), claim("4Gi"), "", list("requests.storage", "6Gi")},
		{"claim that shrinks", newQuota("q", list("requests.storage", "1Gi"), list("requests.storage", "4Gi")),
			corev1.Resource("persistentvolumeclaims"), claim("2Gi"), claim("4Gi"), "", list("requests.storage", "4Gi")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := &objectstest.Store{}
			store.Put(kind, tt.quota)
			if err := validate(store, tt.resource, tt.obj, tt.old, true); (err == nil) != (tt.want == "") ||
				store.Writes != 0 {
				t.Errorf("dry run: %v, %d writes", err, store.Writes)
			}
			err := validate(store, tt.resource, tt.obj, tt.old, false)
			if (err == nil) != (tt.want == "") ||
				(err != nil && (!strings.Contains(err.Error(), tt.want) || !apierrors.IsForbidden(err))) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			now := used(t, store, "q")
			for name, want := range tt.used {
				if got := now[name]; got.Cmp(want) != 0 {
					t.Errorf("used %s=%s, want %s", name, got.String(), want.String())
				}
			}
		})
	}
}

func TestAllOrNone(t *testing.T) {
	store := &objectstest.Store{}
	store.Put(kind, newQuota("a", list("pods", "5"), list("pods", "0")))
	store.Put(kind, newQuota("b", list("pods", "0"), list("pods", "0")))
	if err := validate(store, corev1.Resource("pods"), pod(nil, nil), nil, false); err == nil {
		t.Fatal("no error")
	}
	if got := used(t, store, "a")["pods"]; got.Value() != 0 {
		t.Errorf("%v stayed booked", got.Value())
	}
	if store.Writes != 0 {
		t.Errorf("%d writes for a pod that was refused", store.Writes)
	}
}

// overtaken is a store in which the quota b gets full as soon as a is written.
type overtaken struct{ *objectstest.Store }

func (o overtaken) UpdateStatus(ctx context.Context, gr schema.GroupResource, namespace, name string,
	mutate func(api.Object) (api.Object, error)) (api.Object, error) {
	obj, err := o.Store.UpdateStatus(ctx, gr, namespace, name, mutate)
	if err == nil && name == "a" {
		o.Put(kind, newQuota("b", list("pods", "1"), list("pods", "1")))
	}
	return obj, err
}

// TestRefund: a charge is released if another request used up the next quota.
func TestRefund(t *testing.T) {
	store := overtaken{&objectstest.Store{}}
	store.Put(kind, newQuota("a", list("pods", "5"), list("pods", "0")))
	store.Put(kind, newQuota("b", list("pods", "1"), list("pods", "0")))
	if err := validate(store, corev1.Resource("pods"), pod(nil, nil), nil, false); err == nil ||
		!strings.Contains(err.Error(), "exceeded quota: b") {
		t.Fatalf("error %v", err)
	}
	if got := used(t, store, "a")["pods"]; got.Value() != 0 || store.Writes != 2 {
		t.Errorf("%v stayed booked after %d writes", got.Value(), store.Writes)
	}
}

func TestRace(t *testing.T) {
	store := &objectstest.Store{}
	store.Put(kind, newQuota("q", list("pods", "10"), list("pods", "0")))
	var admitted atomic.Int32
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			if validate(store, corev1.Resource("pods"), pod(nil, nil), nil, false) == nil {
				admitted.Add(1)
			}
		})
	}
	group.Wait()
	if n := admitted.Load(); n != 10 {
		t.Errorf("%d pods passed a quota of 10", n)
	}
}
