package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"quintet.dev/quintet/components/scheduler/schedulertest"
)

const driver = schedulertest.Driver

// withDevices pretends to be an API server that serves devices.
func withDevices(objects ...runtime.Object) *fake.Clientset {
	client := newClient(objects...)
	client.Resources = []*metav1.APIResourceList{{GroupVersion: "resource.k8s.io/v1", APIResources: []metav1.APIResource{
		{Name: "resourceclaims"}, {Name: "resourceslices"}, {Name: "deviceclasses"}}}}
	client.PrependReactor("create", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		claim := action.(clienttesting.CreateAction).GetObject().(*resourcev1.ResourceClaim).DeepCopy()
		if claim.Name == "" {
			claim.Name, claim.UID = claim.GenerateName+"x", types.UID(claim.GenerateName)
		}
		claim.ResourceVersion = "1"
		return true, claim, client.Tracker().Create(action.GetResource(), claim, action.GetNamespace())
	})
	client.PrependReactor("update", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		claim := action.(clienttesting.UpdateAction).GetObject().(*resourcev1.ResourceClaim).DeepCopy()
		claim.ResourceVersion += "0" // the next one, as an API server has it
		return true, claim, client.Tracker().Update(action.GetResource(), claim, action.GetNamespace())
	})
	return client
}

func claiming(pod *v1.Pod, claims ...string) *v1.Pod {
	schedulertest.Claiming(claims...)(pod)
	return pod
}

func oneOf(name string) *resourcev1.ResourceClaim {
	return schedulertest.ResourceClaim(name, schedulertest.Exactly("r", "gpu", 1))
}

func (c *cluster) createClaim(claim *resourcev1.ResourceClaim) {
	c.Helper()
	if _, err := c.client.ResourceV1().ResourceClaims("default").Create(c.Context(), claim,
		metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) resourceClaim(name string) *resourcev1.ResourceClaim {
	c.Helper()
	claim, err := c.client.ResourceV1().ResourceClaims("default").Get(c.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return claim
}

// awaitResourceClaim waits until a claim satisfies the condition.
func (c *cluster) awaitResourceClaim(name string,
	is func(*resourcev1.ResourceClaim) bool) *resourcev1.ResourceClaim {
	c.Helper()
	c.eventually("resource claim "+name, func() bool { return is(c.resourceClaim(name)) })
	return c.resourceClaim(name)
}

// changeClaim changes a claim as its driver or controller would.
func (c *cluster) changeClaim(name string, change func(*resourcev1.ResourceClaim)) {
	c.Helper()
	claim := c.resourceClaim(name)
	change(claim)
	if _, err := c.client.ResourceV1().ResourceClaims("default").UpdateStatus(c.Context(), claim,
		metav1.UpdateOptions{}); err != nil {
		c.Fatal(err)
	}
}

// TestAllocates: the claim is waited for, gets its device, finalizer and reservation, and then the pod is bound; the
// next pod finds the device taken, until it is given back.
func TestAllocates(t *testing.T) {
	client := withDevices(newNode("a", "4"), newNode("b", "4"), schedulertest.DeviceClass("gpu", nil),
		schedulertest.Slice("b", schedulertest.Device("d", "m", nil)))
	c := startOn(t, Config{}, client)
	c.createPod(claiming(newPod("p", "1"), "first"))
	c.eventually("p is gated", func() bool { _, _, _, gated := c.scheduler.queue.Pending(); return gated == 1 })
	c.createClaim(oneOf("first"))
	c.bound("p", "b")
	claim := c.resourceClaim("first")
	result := claim.Status.Allocation.Devices.Results[0]
	if result.Driver != driver || result.Pool != "b" || result.Device != "d" || result.Request != "r" {
		t.Errorf("allocated %+v", result)
	}
	if len(claim.Finalizers) != 1 || claim.Finalizers[0] != resourcev1.Finalizer {
		t.Errorf("finalizers %v", claim.Finalizers)
	}
	want := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "p", UID: c.pod("p").UID}
	if by := claim.Status.ReservedFor; len(by) != 1 || by[0] != want {
		t.Errorf("reserved for %+v", by)
	}
	if claim.Status.Allocation.AllocationTimestamp == nil {
		t.Error("no time of the allocation")
	}
	c.createClaim(oneOf("second"))
	c.createPod(claiming(newPod("q", "1"), "second"))
	c.refused("q", "0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, "+
		"preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.")
	c.changeClaim("first", func(claim *resourcev1.ResourceClaim) { claim.Status = resourcev1.ResourceClaimStatus{} })
	c.bound("q", "b")
}

// TestShares: a second pod uses an allocated claim where its device is.
func TestShares(t *testing.T) {
	client := withDevices(newNode("a", "4"), newNode("b", "4"), schedulertest.DeviceClass("gpu", nil),
		schedulertest.Slice("b", schedulertest.Device("d", "m", nil)), oneOf("x"))
	c := startOn(t, Config{}, client)
	c.createPod(claiming(newPod("p", "1"), "x"))
	c.bound("p", "b")
	c.createPod(claiming(newPod("q", "1"), "x"))
	c.bound("q", "b")
	if by := c.resourceClaim("x").Status.ReservedFor; len(by) != 2 {
		t.Errorf("reserved for %+v", by)
	}
}

// TestDeallocates: a claim that is not in use and whose node is gone gets another device.
func TestDeallocates(t *testing.T) {
	client := withDevices(newNode("a", "4"), schedulertest.DeviceClass("gpu", nil),
		schedulertest.Slice("a", schedulertest.Device("d", "m", nil)),
		schedulertest.Allocated(oneOf("x"), "r", "gone", "d"))
	c := startOn(t, Config{}, client)
	c.createPod(claiming(newPod("p", "1"), "x"))
	c.bound("p", "a")
	c.event("p", "FailedScheduling", "0/1 nodes are available: 1 resourceclaim not available on the node. "+
		"deallocation of ResourceClaim completed, preemption: 0/1 nodes are available: "+
		"1 Preemption is not helpful for scheduling.")
	if pool := c.resourceClaim("x").Status.Allocation.Devices.Results[0].Pool; pool != "a" {
		t.Errorf("allocated from %s", pool)
	}
}

// binding is a device that has to become ready, and can fail to.
func binding(d *resourcev1.Device) {
	d.BindingConditions, d.BindingFailureConditions = []string{"Attached"}, []string{"Broken"}
}

func report(condition, device string) func(*resourcev1.ResourceClaim) {
	return func(claim *resourcev1.ResourceClaim) {
		claim.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: driver, Pool: "a", Device: device,
			Conditions: []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue, Reason: "Why"}}}}
	}
}

// TestWaitsForDevice: a pod is bound once its device is ready; one whose device fails gets another one.
func TestWaitsForDevice(t *testing.T) {
	client := withDevices(newNode("a", "4"), schedulertest.DeviceClass("gpu", nil),
		schedulertest.Slice("a", schedulertest.Device("d", "m", binding)), oneOf("x"))
	c := startOn(t, Config{}, client)
	c.createPod(claiming(newPod("p", "1"), "x"))
	c.event("p", "BindingConditionsPending", "waiting for binding conditions for device on node a")
	c.changeClaim("x", report("Broken", "d"))
	c.event("p", "FailedScheduling",
		`running PreBind plugin "DynamicResources": claim x binding failed: reason=Why, message=""`)
	c.refused("p", "0/1 nodes are available: 1 resourceclaim not available on the node. "+
		"deallocation of ResourceClaim completed, preemption: 0/1 nodes are available: "+
		"1 Preemption is not helpful for scheduling.")
	c.awaitResourceClaim("x", func(claim *resourcev1.ResourceClaim) bool {
		return claim.Status.Allocation != nil && len(claim.Status.Devices) == 0
	})
	if node := c.pod("p").Spec.NodeName; node != "" {
		t.Fatalf("the pod is on %s before its device is ready", node)
	}
	c.changeClaim("x", report("Attached", "d"))
	c.bound("p", "a")
}

// TestServesExtendedResource: a pod that requests an extended resource gets a claim for it, where no device plug-in has
// it; one that asks for too much has none.
func TestServesExtendedResource(t *testing.T) {
	const gpus = v1.ResourceName("example.com/gpu")
	client := withDevices(newNode("a", "4"),
		schedulertest.DeviceClass("gpu", schedulertest.Serves(string(gpus))),
		schedulertest.Slice("a", schedulertest.Device("d0", "m", nil), schedulertest.Device("d1", "m", nil)))
	c := startOn(t, Config{}, client)
	pod := newPod("p", "1")
	pod.Spec.Containers[0].Resources.Requests[gpus] = resource.MustParse("2")
	c.createPod(pod)
	c.bound("p", "a")
	status := c.pod("p").Status.ExtendedResourceClaimStatus
	if status == nil || status.ResourceClaimName != "p-extended-resources-x" || len(status.RequestMappings) != 1 ||
		status.RequestMappings[0].RequestName != "container-0-request-1" {
		t.Fatalf("status %+v", status)
	}
	claim := c.resourceClaim(status.ResourceClaimName)
	if claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" ||
		!metav1.IsControlledBy(claim, c.pod("p")) ||
		len(claim.Status.Allocation.Devices.Results) != 2 || len(claim.Status.ReservedFor) != 1 {
		t.Errorf("claim %+v", claim)
	}
	next := newPod("q", "1")
	next.Spec.Containers[0].Resources.Requests[gpus] = resource.MustParse("1")
	c.createPod(next)
	c.refused("q", "0/1 nodes are available: 1 cannot allocate all claims.")
	claims, err := client.ResourceV1().ResourceClaims("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(claims.Items) != 1 {
		t.Errorf("claims %+v, %v", claims.Items, err)
	}
}

// TestExtendedResourceWithoutGate: it is one that no node has.
func TestExtendedResourceWithoutGate(t *testing.T) {
	client := withDevices(newNode("a", "4"),
		schedulertest.DeviceClass("gpu", schedulertest.Serves("example.com/gpu")),
		schedulertest.Slice("a", schedulertest.Device("d", "m", nil)))
	c := startOn(t, Config{FeatureGates: map[string]bool{"DRAExtendedResource": false}}, client)
	pod := newPod("p", "1")
	pod.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
	c.createPod(pod)
	c.refused("p", "0/1 nodes are available: 1 Insufficient example.com/gpu.")
}

// TestGatesNeedEachOther: a gate that is on without one it needs is an error that names both.
func TestGatesNeedEachOther(t *testing.T) {
	for gates, want := range map[string]string{
		"DRAResourceClaimDeviceStatus=false":                                  "DRADeviceBindingConditions",
		"DRADeviceTaints=false,DRADeviceTaintRules=true":                      "DRADeviceTaintRules",
		"DRAResourceClaimDeviceStatus=false,DRADeviceBindingConditions=false": "",
		"DRADeviceTaintRules=true":                                            "",
		"DRADeviceTaints=false":                                               "",
	} {
		var c Config
		if err := c.gates.Set(gates); err != nil {
			t.Fatal(err)
		}
		err := c.gates.check()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", gates, err)
		}
	}
}

// TestBindingTimeout: a device that does not become ready in time fails the attempt.
func TestBindingTimeout(t *testing.T) {
	client := withDevices(newNode("a", "4"), schedulertest.DeviceClass("gpu", nil),
		schedulertest.Slice("a", schedulertest.Device("d", "m", binding)), oneOf("x"))
	chosen := defaults()
	for i := range chosen {
		if chosen[i].Name == "DynamicResources" {
			chosen[i].Args = &configv1.DynamicResourcesArgs{BindingTimeout: &metav1.Duration{Duration: 10 * time.Millisecond}}
		}
	}
	c := startOn(t, Config{Profiles: []Profile{{Name: v1.DefaultSchedulerName, Plugins: chosen}}}, client)
	c.createPod(claiming(newPod("p", "1"), "x"))
	c.await("p", "given up", func(p *v1.Pod) bool {
		return slices.ContainsFunc(p.Status.Conditions, func(condition v1.PodCondition) bool {
			return condition.Reason == v1.PodReasonSchedulerError &&
				strings.HasPrefix(condition.Message, `running PreBind plugin "DynamicResources": `) &&
				strings.HasSuffix(condition.Message, " binding timeout")
		})
	})
}
