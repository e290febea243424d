package resourcequota

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/client-go/informers"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// list reads name, quantity, name, quantity ...
func list(pairs ...string) v1.ResourceList {
	l := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func pod(name, cpu string, phase v1.PodPhase) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Status: v1.PodStatus{Phase: phase}}
	c := v1.Container{Name: "c"}
	if cpu != "" {
		c.Resources = v1.ResourceRequirements{Requests: list("cpu", cpu, "example.com/gpu", "1"),
			Limits: list("cpu", "1", "memory", "1Gi")}
	}
	p.Spec.Containers = []v1.Container{c}
	return p
}

// of is what is observed where there are these objects.
func of(kind string, objects ...runtime.Object) observed {
	return observed{objects: map[schema.GroupResource][]runtime.Object{v1.Resource(kind): objects}}
}

func TestDecide(t *testing.T) {
	all := []runtime.Object{pod("a", "100m", v1.PodRunning), pod("b", "200m", v1.PodPending),
		pod("ended", "1", v1.PodSucceeded), pod("idle", "", v1.PodRunning)}
	deadline := pod("d", "1", v1.PodRunning)
	deadline.Spec.ActiveDeadlineSeconds = ptr.To[int64](5)
	claim := &v1.PersistentVolumeClaim{Spec: v1.PersistentVolumeClaimSpec{StorageClassName: ptr.To("fast"),
		Resources: v1.VolumeResourceRequirements{Requests: list("storage", "2Gi")}}}
	service := func(kind v1.ServiceType) *v1.Service {
		return &v1.Service{Spec: v1.ServiceSpec{Type: kind, Ports: []v1.ServicePort{{Port: 1}, {Port: 2}}}}
	}
	for name, c := range map[string]struct {
		hard, want v1.ResourceList
		scopes     []v1.ResourceQuotaScope
		o          observed
	}{
		"compute": {
			hard: list("cpu", "1", "requests.cpu", "1", "limits.cpu", "9", "limits.memory", "9Gi", "pods", "9",
				"requests.example.com/gpu", "4", "memory", "1Gi"),
			want: list("cpu", "300m", "requests.cpu", "300m", "limits.cpu", "2", "limits.memory", "2Gi", "pods", "3",
				"requests.example.com/gpu", "2", "memory", "0"),
			o: of("pods", all...),
		},
		"best effort": {hard: list("pods", "9"), want: list("pods", "1"),
			scopes: []v1.ResourceQuotaScope{v1.ResourceQuotaScopeBestEffort}, o: of("pods", all...)},
		"not best effort": {hard: list("pods", "9", "count/pods", "9"), want: list("pods", "2", "count/pods", "3"),
			scopes: []v1.ResourceQuotaScope{v1.ResourceQuotaScopeNotBestEffort}, o: of("pods", all...)},
		"terminating": {hard: list("cpu", "9"), want: list("cpu", "1"),
			scopes: []v1.ResourceQuotaScope{v1.ResourceQuotaScopeTerminating}, o: of("pods", append(all, deadline)...)},
		"counts": {
			hard: list("configmaps", "5", "count/deployments.apps", "5", "count/unknown.example.com", "1"),
			want: list("configmaps", "2", "count/deployments.apps", "3"),
			o: observed{counts: map[schema.GroupResource]int64{v1.Resource("configmaps"): 2,
				{Group: "apps", Resource: "deployments"}: 3}},
		},
		"events": {hard: list("count/events", "5", "count/events.events.k8s.io", "5"), want: list()},
		"services": {
			hard: list("services.nodeports", "9", "services.loadbalancers", "9"),
			want: list("services.nodeports", "4", "services.loadbalancers", "1"),
			o: of("services", service(v1.ServiceTypeNodePort), service(v1.ServiceTypeLoadBalancer),
				service(v1.ServiceTypeClusterIP)),
		},
		"claims": {
			hard: list("requests.storage", "9Gi", "fast.storageclass.storage.k8s.io/requests.storage", "9Gi",
				"fast.storageclass.storage.k8s.io/persistentvolumeclaims", "9",
				"slow.storageclass.storage.k8s.io/requests.storage", "1Gi"),
			want: list("requests.storage", "2Gi", "fast.storageclass.storage.k8s.io/requests.storage", "2Gi",
				"fast.storageclass.storage.k8s.io/persistentvolumeclaims", "1",
				"slow.storageclass.storage.k8s.io/requests.storage", "0"),
			o: of("persistentvolumeclaims", claim),
		},
	} {
		c.o.quota = &v1.ResourceQuota{Spec: v1.ResourceQuotaSpec{Hard: c.hard, Scopes: c.scopes}}
		got := decide(c.o, time.Now())
		same := len(got.Used) == len(c.want)
		for n, q := range c.want {
			u, ok := got.Used[n]
			same = same && ok && u.Cmp(q) == 0
		}
		if !same || len(got.Hard) != len(c.hard) {
			t.Errorf("%s: used %v, want %v", name, got.Used, c.want)
		}
	}
}

func TestCountsAnewWhatIsGone(t *testing.T) {
	configMap := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	q := &v1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q"},
		Spec: v1.ResourceQuotaSpec{Hard: list("pods", "9", "cpu", "9", "configmaps", "9")}}
	client := runnertest.NewClient(q, pod("a", "100m", v1.PodRunning), pod("b", "200m", v1.PodRunning), configMap)
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects := metadatafake.NewSimpleMetadataClient(scheme, &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: configMap.ObjectMeta})
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{v1.SchemeGroupVersion})
	mapper.Add(v1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	runnertest.Start(t, client, clock.RealClock{}, func(env runner.Env) (runner.Controller, error) {
		return New(env, objects, mapper, time.Hour)
	})
	used := func(want v1.ResourceList) {
		t.Helper()
		runnertest.Eventually(t, func() (bool, string) {
			got, err := client.CoreV1().ResourceQuotas("ns").Get(t.Context(), "q", metav1.GetOptions{})
			if err != nil {
				return false, err.Error()
			}
			for name, q := range want {
				if u, ok := got.Status.Used[name]; !ok || u.Cmp(q) != 0 {
					return false, fmt.Sprint(got.Status.Used)
				}
			}
			return len(got.Status.Hard) == 3, "hard"
		})
	}
	used(list("pods", "2", "cpu", "300m", "configmaps", "1"))
	if err := client.CoreV1().Pods("ns").Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	used(list("pods", "1", "cpu", "100m"))
}

// TestNewPodsOnlyRaise: what the API server has charged for pods that were not seen yet stays charged.
func TestNewPodsOnlyRaise(t *testing.T) {
	q := &v1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q"},
		Spec: v1.ResourceQuotaSpec{Hard: list("pods", "9", "cpu", "9")}}
	q.Status = v1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: list("pods", "3", "cpu", "200m")}
	client := runnertest.NewClient(q, pod("a", "100m", v1.PodRunning), pod("b", "400m", v1.PodRunning))
	factory := informers.NewSharedInformerFactory(client, 0)
	c, err := New(runner.Env{Client: client, Informers: factory, Clock: clock.RealClock{}, Workers: 1}, nil,
		nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer func() {
		cancel()
		_ = c.Run(ctx) // ends its queues
		factory.Shutdown()
	}()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for _, x := range []struct {
		raise bool
		want  v1.ResourceList
	}{{true, list("pods", "3", "cpu", "500m")}, {false, list("pods", "2", "cpu", "500m")}} {
		if err := c.reconcile(ctx, "ns/q", x.raise); err != nil {
			t.Fatal(err)
		}
		got, err := client.CoreV1().ResourceQuotas("ns").Get(ctx, "q", metav1.GetOptions{})
		if err != nil || !quota.Equals(got.Status.Used, x.want) {
			t.Errorf("raise %v: %v, %v", x.raise, got.Status.Used, err)
		}
	}
}

// TestWhatIsCountedAnew: a pod that gets a node, or a claim that gets a volume, uses what it did before.
func TestWhatIsCountedAnew(t *testing.T) {
	client := runnertest.NewClient()
	c, err := New(runner.Env{Client: client, Informers: informers.NewSharedInformerFactory(client, 0),
		Clock: clock.RealClock{}, Workers: 1}, nil, nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = c.Run(ctx) // ends its queues
	claim := &v1.PersistentVolumeClaim{
		Spec: v1.PersistentVolumeClaimSpec{Resources: v1.VolumeResourceRequirements{Requests: list("storage", "2Gi")}},
	}
	service := &v1.Service{Spec: v1.ServiceSpec{Type: v1.ServiceTypeNodePort, Ports: []v1.ServicePort{{Port: 1}}}}
	for name, x := range map[string]struct {
		kind   string
		old    runtime.Object
		change func(runtime.Object)
		want   bool
	}{
		"a node": {"pods", pod("a", "1", v1.PodPending),
			func(o runtime.Object) { o.(*v1.Pod).Spec.NodeName = "n" }, false},
		"runs": {"pods", pod("a", "1", v1.PodPending),
			func(o runtime.Object) { o.(*v1.Pod).Status.Phase = v1.PodRunning }, false},
		"ended": {"pods", pod("a", "1", v1.PodRunning),
			func(o runtime.Object) { o.(*v1.Pod).Status.Phase = v1.PodFailed }, true},
		"resized": {"pods", pod("a", "1", v1.PodRunning),
			func(o runtime.Object) { o.(*v1.Pod).Spec.Containers[0].Resources.Requests = list("cpu", "2") }, true},
		"a volume": {"persistentvolumeclaims", claim,
			func(o runtime.Object) { o.(*v1.PersistentVolumeClaim).Spec.VolumeName = "v" }, false},
		"a larger claim": {"persistentvolumeclaims", claim,
			func(o runtime.Object) { o.(*v1.PersistentVolumeClaim).Spec.Resources.Requests = list("storage", "3Gi") },
			true},
		"a selector": {"services", service,
			func(o runtime.Object) { o.(*v1.Service).Spec.Selector = map[string]string{"a": "b"} }, false},
		"another type": {"services", service,
			func(o runtime.Object) { o.(*v1.Service).Spec.Type = v1.ServiceTypeClusterIP }, true},
	} {
		changed := x.old.DeepCopyObject()
		x.change(changed)
		if got := c.differs(v1.Resource(x.kind), x.old, changed); got != x.want {
			t.Errorf("%s: counted again: %v", name, got)
		}
	}
}
