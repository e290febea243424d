package service

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
)

// cloud has addresses for a number of load balancers.
type cloud struct {
	mu    sync.Mutex
	free  []string
	has   map[string]string
	nodes []string
}

func (c *cloud) Adopt(all []*v1.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, svc := range all {
		for _, ingress := range svc.Status.LoadBalancer.Ingress {
			c.has[svc.Namespace+"/"+svc.Name] = ingress.IP
		}
	}
}

func (c *cloud) Exists(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.has[key] != ""
}

func (c *cloud) Ensure(key string, _ *v1.Service) (v1.LoadBalancerStatus, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.has[key] == "" {
		if len(c.free) == 0 {
			return v1.LoadBalancerStatus{}, errors.New("exhausted")
		}
		c.has[key], c.free = c.free[0], c.free[1:]
	}
	return v1.LoadBalancerStatus{Ingress: []v1.LoadBalancerIngress{{IP: c.has[key]}}}, nil
}

func (c *cloud) Delete(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.has[key] != "" {
		c.free = append(c.free, c.has[key])
		delete(c.has, key)
	}
}

func (c *cloud) UpdateNodes(_, fit []*v1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = nil
	for _, node := range fit {
		c.nodes = append(c.nodes, node.Name)
	}
	slices.Sort(c.nodes)
}

type fixture struct {
	t      *testing.T
	client *fake.Clientset
	cloud  *cloud
	events chan string
}

// start runs a controller until the test ends.
func start(t *testing.T, class string, free []string, objects ...*v1.Service) *fixture {
	t.Helper()
	f := &fixture{t: t, client: fake.NewClientset(), cloud: &cloud{free: free, has: map[string]string{}}}
	f.setNode("n1", nil)
	for _, svc := range objects {
		f.create(svc)
	}
	recorder := record.NewFakeRecorder(1000)
	f.events = recorder.Events
	factory := informers.NewSharedInformerFactory(f.client, 0)
	c, err := New(Config{
		Client: f.client.CoreV1(), Events: recorder, LoadBalancers: f.cloud, Class: class, Clock: clock.RealClock{},
		Services: factory.Core().V1().Services().Informer(), Nodes: factory.Core().V1().Nodes().Informer(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
		factory.Shutdown()
		goleak.VerifyNone(t, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
	})
	return f
}

func (f *fixture) create(svc *v1.Service) {
	f.t.Helper()
	if _, err := f.client.CoreV1().Services(svc.Namespace).Create(f.t.Context(), svc,
		metav1.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) get(name string) *v1.Service {
	f.t.Helper()
	svc, err := f.client.CoreV1().Services("default").Get(f.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return svc
}

func (f *fixture) update(name string, change func(*v1.Service)) {
	f.t.Helper()
	svc := f.get(name)
	change(svc)
	if _, err := f.client.CoreV1().Services("default").Update(f.t.Context(), svc, metav1.UpdateOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) setNode(name string, change func(*v1.Node)) {
	f.t.Helper()
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}},
	}
	nodes := f.client.CoreV1().Nodes()
	if change == nil {
		if _, err := nodes.Create(f.t.Context(), node, metav1.CreateOptions{}); err != nil {
			f.t.Fatal(err)
		}
		return
	}
	change(node)
	if _, err := nodes.Update(f.t.Context(), node, metav1.UpdateOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

// expect waits for events, in this order, and for no other one between them.
func (f *fixture) expect(want ...string) {
	f.t.Helper()
	for _, text := range want {
		select {
		case got := <-f.events:
			if got != text {
				f.t.Fatalf("got event %q, want %q", got, text)
			}
		case <-time.After(30 * time.Second):
			f.t.Fatalf("no event %q", text)
		}
	}
}

// eventually waits until a Service is as wanted.
func (f *fixture) eventually(name string, is func(*v1.Service) bool) {
	f.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(f.get(name)); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("Service %s: %+v", name, f.get(name))
		}
	}
}

func ingress(ips ...string) func(*v1.Service) bool {
	return func(svc *v1.Service) bool {
		var got []string
		for _, i := range svc.Status.LoadBalancer.Ingress {
			got = append(got, i.IP)
		}
		return slices.Equal(got, ips)
	}
}

func loadBalanced(name string) *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "1"},
		Spec:       v1.ServiceSpec{Type: v1.ServiceTypeLoadBalancer},
	}
}

const (
	ensuring = "Normal EnsuringLoadBalancer Ensuring load balancer"
	ensured  = "Normal EnsuredLoadBalancer Ensured load balancer"
	deleting = "Normal DeletingLoadBalancer Deleting load balancer"
	deleted  = "Normal DeletedLoadBalancer Deleted load balancer"
	failed   = "Warning SyncLoadBalancerFailed Error syncing load balancer: failed to ensure load balancer: exhausted"
)

func TestLoadBalancerIsMadeAndRemoved(t *testing.T) {
	f := start(t, "", []string{"10.0.0.1"})
	f.create(loadBalanced("a"))
	f.expect(ensuring, ensured)
	f.eventually("a", ingress("10.0.0.1"))
	if svc := f.get("a"); !slices.Equal(svc.Finalizers, []string{finalizer}) {
		t.Errorf("finalizers %v", svc.Finalizers)
	}
	for _, action := range f.client.Actions() {
		if action.GetVerb() == "patch" && action.GetSubresource() != "status" {
			t.Errorf("patch of subresource %q", action.GetSubresource())
		}
	}

	f.update("a", func(svc *v1.Service) { svc.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal })
	f.expect("Normal ExternalTrafficPolicy  -> Local", ensuring, ensured)
	f.update("a", func(svc *v1.Service) { svc.Labels = map[string]string{"no": "matter"} })
	f.update("a", func(svc *v1.Service) { svc.Spec.LoadBalancerIP = "10.0.0.1" })
	f.expect("Normal LoadbalancerIP  -> 10.0.0.1", ensuring, ensured)

	f.update("a", func(svc *v1.Service) { svc.Spec.Type = v1.ServiceTypeClusterIP })
	f.expect("Normal Type LoadBalancer -> ClusterIP", deleting, deleted)
	f.eventually("a", func(svc *v1.Service) bool { return ingress()(svc) && len(svc.Finalizers) == 0 })

	f.update("a", func(svc *v1.Service) { svc.Spec.Type = v1.ServiceTypeLoadBalancer })
	f.expect("Normal Type ClusterIP -> LoadBalancer", ensuring, ensured)
	f.eventually("a", ingress("10.0.0.1"))
	now := metav1.Now()
	f.update("a", func(svc *v1.Service) { svc.DeletionTimestamp, svc.Finalizers = &now, append(svc.Finalizers, "x/y") })
	f.expect(deleting, deleted)
	f.eventually("a", func(svc *v1.Service) bool { return slices.Equal(svc.Finalizers, []string{"x/y"}) })
}

// A Service that found no address gets the one that is given back.
func TestExhaustedPoolIsWaitedFor(t *testing.T) {
	f := start(t, "", []string{"10.0.0.1"})
	f.create(loadBalanced("a"))
	f.expect(ensuring, ensured)
	f.create(loadBalanced("b"))
	f.expect(ensuring, failed)
	f.update("a", func(svc *v1.Service) { svc.Spec.Type = v1.ServiceTypeNodePort })
	f.expect("Normal Type LoadBalancer -> NodePort", deleting, deleted, ensuring, ensured)
	f.eventually("b", ingress("10.0.0.1"))
}

// The cache may still hold the status of before the last write.
func TestStatusIsComparedWithTheLastWrite(t *testing.T) {
	first, second := v1.LoadBalancerStatus{}, v1.LoadBalancerStatus{}
	first.Ingress = []v1.LoadBalancerIngress{{IP: "10.0.0.1"}}
	second.Ingress = []v1.LoadBalancerIngress{{IP: "10.0.0.2"}}
	cached := loadBalanced("a")
	cached.Finalizers, cached.Status.LoadBalancer = []string{finalizer, "x/y"}, first
	client := fake.NewClientset(cached)
	c := &Controller{client: client.CoreV1(), written: map[string]v1.LoadBalancerStatus{}}
	stored := func() *v1.Service {
		t.Helper()
		svc, err := client.CoreV1().Services("default").Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return svc
	}
	for _, status := range []v1.LoadBalancerStatus{first, second, first, first, second} {
		if err := c.setStatus(t.Context(), "default/a", cached, status); err != nil {
			t.Fatal(err)
		}
		if want, got := status.Ingress[0].IP, stored(); !ingress(want)(got) {
			t.Errorf("want %s, got %+v", want, got.Status)
		}
	}
	cached.Status.LoadBalancer = v1.LoadBalancerStatus{}
	if err := c.release(t.Context(), "default/a", cached); err != nil {
		t.Fatal(err)
	}
	if svc := stored(); !ingress()(svc) || !slices.Equal(svc.Finalizers, []string{"x/y"}) {
		t.Errorf("got finalizers %v, status %+v", svc.Finalizers, svc.Status)
	}
	writes := 0
	for _, action := range client.Actions() {
		if action.GetVerb() == "patch" {
			writes++
		}
	}
	if writes != 4 {
		t.Errorf("%d writes, want 4", writes)
	}
}

// An address is not free before the Service's status is without it, and a failed write is repeated.
func TestFailedReleaseIsRetried(t *testing.T) {
	svc := loadBalanced("a")
	svc.Spec.Type, svc.Finalizers = v1.ServiceTypeClusterIP, []string{finalizer}
	client := fake.NewClientset(svc)
	refused := true
	client.PrependReactor("patch", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return refused, nil, errors.New("refused")
	})
	lost := &cloud{has: map[string]string{"default/a": "10.0.0.1"}}
	c := &Controller{
		client: client.CoreV1(), events: record.NewFakeRecorder(10), loadBalancers: lost,
		known: map[string]*v1.Service{}, written: map[string]v1.LoadBalancerStatus{}, waiting: sets.New[string](),
	}
	if err := c.delete(t.Context(), "default/a", svc); err == nil || !strings.Contains(err.Error(), "refused") ||
		len(lost.free) > 0 {
		t.Errorf("got %v, free %v", err, lost.free)
	}
	refused = false
	if err := c.delete(t.Context(), "default/a", svc); err != nil {
		t.Error(err)
	}
	got, err := client.CoreV1().Services("default").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || len(got.Finalizers) > 0 || len(lost.free) != 1 || len(c.known) > 0 {
		t.Errorf("finalizers %v, free %v, known %v, %v", got.Finalizers, lost.free, c.known, err)
	}
}

// The finalizer may be missing, as where it was taken away by hand.
func TestServiceWithoutFinalizerIsForgotten(t *testing.T) {
	f := start(t, "", []string{"10.0.0.1"})
	f.create(loadBalanced("a"))
	f.expect(ensuring, ensured)
	f.eventually("a", ingress("10.0.0.1"))
	if err := f.client.CoreV1().Services("default").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.expect(deleting, deleted)
}

func TestRestartKeepsAndCleansUp(t *testing.T) {
	kept, gone, leaving := loadBalanced("kept"), loadBalanced("gone"), loadBalanced("leaving")
	for svc, ip := range map[*v1.Service]string{kept: "10.0.0.1", leaving: "10.0.0.2"} {
		svc.Finalizers = []string{finalizer}
		svc.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: ip}}
	}
	now := metav1.Now()
	leaving.DeletionTimestamp = &now
	gone.Spec.Type, gone.Finalizers = v1.ServiceTypeClusterIP, []string{finalizer}
	f := start(t, "", nil, kept, gone, leaving)
	f.eventually("gone", func(svc *v1.Service) bool { return len(svc.Finalizers) == 0 })
	f.eventually("leaving", func(svc *v1.Service) bool { return len(svc.Finalizers) == 0 && ingress()(svc) })
	f.eventually("kept", ingress("10.0.0.1"))
	var events []string
	for len(events) < 5 {
		events = append(events, <-f.events)
	}
	slices.Sort(events)
	if want := []string{deleted, deleted, deleting, ensured, ensuring}; !slices.Equal(events, want) {
		t.Errorf("events\n%s", strings.Join(events, "\n"))
	}
}

func TestClasses(t *testing.T) {
	foreign, own := "example.com/other", "example.com/own"
	theirs, ours := loadBalanced("theirs"), loadBalanced("ours")
	theirs.Spec.LoadBalancerClass, ours.Spec.LoadBalancerClass = &foreign, &own
	now := metav1.Now()
	theirs.DeletionTimestamp, theirs.Finalizers = &now, []string{finalizer}
	f := start(t, own, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, theirs, ours)
	f.expect(ensuring, ensured)
	f.eventually("ours", func(svc *v1.Service) bool { return len(svc.Status.LoadBalancer.Ingress) == 1 })
	f.create(loadBalanced("plain"))
	f.expect(ensuring, ensured)
	if svc := f.get("theirs"); !ingress()(svc) || len(svc.Finalizers) != 1 {
		t.Errorf("a Service of another class was changed: %+v", svc)
	}
}

func TestNodes(t *testing.T) {
	f := start(t, "", []string{"10.0.0.1"}, loadBalanced("a"))
	f.expect(ensuring, ensured)
	const unavailable = "Warning UnAvailableLoadBalancer There are no available nodes for LoadBalancer"
	const updated = "Normal UpdatedLoadBalancer Updated load balancer with new hosts"
	f.setNode("n2", nil)
	f.expect(updated)
	for _, change := range []func(*v1.Node){
		func(n *v1.Node) { n.Status.Conditions[0].Status = v1.ConditionUnknown },
		func(n *v1.Node) { n.Status.Conditions = nil },
		func(n *v1.Node) { n.Labels = map[string]string{v1.LabelNodeExcludeBalancers: ""} },
		func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: toBeDeletedTaint}} },
		func(n *v1.Node) { now := metav1.Now(); n.DeletionTimestamp = &now },
	} {
		f.setNode("n2", change)
		f.expect(updated)
		f.setNode("n2", func(*v1.Node) {})
		f.expect(updated)
	}
	f.setNode("n2", func(n *v1.Node) { n.Annotations = map[string]string{"no": "matter"} })
	f.setNode("n1", func(n *v1.Node) { n.Status.Conditions[0].Status = v1.ConditionFalse })
	f.expect(updated)
	f.setNode("n2", func(n *v1.Node) { n.Status.Conditions[0].Status = v1.ConditionFalse })
	f.expect(unavailable)
	f.update("a", func(svc *v1.Service) { svc.Annotations = map[string]string{"a": "b"} })
	f.expect(ensuring, unavailable, ensured)
}
