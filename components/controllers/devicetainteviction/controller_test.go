package devicetainteviction

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// user is a pod on a node that uses a claim of its name.
func user(name string) *v1.Pod {
	return &v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec: v1.PodSpec{NodeName: "n",
			ResourceClaims: []v1.PodResourceClaim{{Name: "c", ResourceClaimName: &name}}}}
}

// used is the claim of a pod, with a device and its tolerations.
func used(name, device string, tolerations ...resourcev1.DeviceToleration) *resourcev1.ResourceClaim {
	c := claimOf(tolerations)
	c.ObjectMeta = metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("claim-" + name)}
	c.Status.Allocation.Devices.Results[0].Device = device
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: name,
		UID: types.UID("uid-" + name)}}
	return c
}

// devices is a slice of pool p with device d0, which has taints, and d1.
func devices(generation int64, taints ...resourcev1.DeviceTaint) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("slice-", generation)},
		Spec: resourcev1.ResourceSliceSpec{Driver: "driver",
			Pool:    resourcev1.ResourcePool{Name: "p", Generation: generation, ResourceSliceCount: 1},
			Devices: []resourcev1.Device{{Name: "d0", Taints: taints}, {Name: "d1"}}}}
}

func gone(t *testing.T, client *fake.Clientset, name string) func() (bool, string) {
	return func() (bool, string) {
		pod, err := client.CoreV1().Pods("ns").Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(pod, err)
	}
}

// TestTaintOfDriver: pods go that don't tolerate it, or when their toleration ends; what is known of an older
// generation of the pool does not count.
func TestTaintOfDriver(t *testing.T) {
	clock := clocktesting.NewFakeClock(added.Time)
	execute := resourcev1.DeviceTaint{Key: "k", Effect: execute, TimeAdded: &added}
	other := user("unreserved")
	unreserved := used("unreserved", "d0")
	unreserved.Status.ReservedFor = nil
	client := runnertest.NewClient(user("now"), used("now", "d0"), user("later"),
		used("later", "d0", tolerates("k", ptr.To[int64](300))), user("always"), used("always", "d0", tolerates("k", nil)),
		user("elsewhere"), used("elsewhere", "d1"), other, unreserved,
		devices(1, resourcev1.DeviceTaint{Key: "old", Effect: "NoExecute", TimeAdded: &added}), devices(2, execute))
	registry := prometheus.NewRegistry()
	events := runnertest.Start(t, client, clock, func(env runner.Env) (runner.Controller, error) {
		return New(env, false, registry)
	})
	runnertest.Eventually(t, gone(t, client, "now"))
	runnertest.Saw(t, events, "Normal DeviceTaintManagerEviction Marking for deletion")
	runnertest.Eventually(t, func() (bool, string) { return clock.HasWaiters(), "no pod waits" })
	if _, err := client.CoreV1().Pods("ns").Get(t.Context(), "later", metav1.GetOptions{}); err != nil {
		t.Fatalf("the pod with tolerationSeconds: %v", err)
	}
	runnertest.Eventually(t, func() (bool, string) {
		clock.Step(301 * time.Second)
		return gone(t, client, "later")()
	})
	for _, name := range []string{"always", "elsewhere", "unreserved"} {
		if _, err := client.CoreV1().Pods("ns").Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Errorf("pod %s: %v", name, err)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "device_taint_eviction_controller_pod_deletions_total" &&
			family.GetMetric()[0].GetCounter().GetValue() != 2 {
			t.Errorf("deletions: %v", family)
		}
	}
}

// TestCancels: a pod that waited stays when the taint goes.
func TestCancels(t *testing.T) {
	clock := clocktesting.NewFakeClock(added.Time)
	client := runnertest.NewClient(user("later"), used("later", "d0", tolerates("k", ptr.To[int64](300))),
		devices(1, resourcev1.DeviceTaint{Key: "k", Effect: execute, TimeAdded: &added}))
	var c *Controller
	events := runnertest.Start(t, client, clock, func(env runner.Env) (runner.Controller, error) {
		var err error
		c, err = New(env, false, nil)
		return c, err
	})
	runnertest.Eventually(t, func() (bool, string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.pending) == 1, "the pod does not wait"
	})
	if _, err := client.ResourceV1().ResourceSlices().Update(t.Context(), devices(1), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	runnertest.Saw(t, events, "Normal DeviceTaintManagerEviction Cancelling deletion")
}

// TestRules: a rule evicts like a driver's taint and tells so; without effect, it only tells what it would do; where
// rules don't count, nothing happens.
func TestRules(t *testing.T) {
	all := &resourcev1beta2.DeviceTaintSelector{Driver: ptr.To("driver"), Device: ptr.To("d0")}
	condition := func(client *fake.Clientset, reason, message string) func() (bool, string) {
		return func() (bool, string) {
			now, err := client.ResourceV1beta2().DeviceTaintRules().Get(t.Context(), "r", metav1.GetOptions{})
			if err != nil {
				return false, err.Error()
			}
			got := meta.FindStatusCondition(now.Status.Conditions, "EvictionInProgress")
			return got != nil && got.Reason == reason && got.Message == message, fmt.Sprintf("%+v", got)
		}
	}
	for name, c := range map[string]struct {
		effect          resourcev1beta2.DeviceTaintEffect
		reason, message string
		evicts          bool
	}{
		"evicts": {"NoExecute", "Completed", "1 pod evicted since starting the controller.", true},
		"only tells": {"None", "NoEffect", "1 published device selected. 1 allocated device selected. 1 pod would be " +
			"evicted in 1 namespace if the effect was NoExecute. This information will not be updated again. Recreate the " +
			"DeviceTaintRule to trigger an update.", false},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(added.Time)
			client := runnertest.NewClient(user("p"), used("p", "d0"), devices(1), rule(c.effect, all))
			runnertest.Start(t, client, clock, func(env runner.Env) (runner.Controller, error) {
				return New(env, true, nil)
			})
			if c.evicts {
				runnertest.Eventually(t, gone(t, client, "p"))
			}
			runnertest.Eventually(t, func() (bool, string) {
				clock.Step(statusPeriod)
				return condition(client, c.reason, c.message)()
			})
			if is, _ := gone(t, client, "p")(); is != c.evicts {
				t.Errorf("the pod is gone: %v", is)
			}
		})
	}
	client := runnertest.NewClient(user("p"), used("p", "d0"), user("q"), used("q", "d0"),
		devices(1), rule("NoExecute", all))
	runnertest.Start(t, client, clocktesting.NewFakeClock(added.Time), func(env runner.Env) (runner.Controller, error) {
		return New(env, false, nil)
	})
	tainted := devices(2, resourcev1.DeviceTaint{Key: "k", Effect: execute, TimeAdded: &added})
	now := used("q", "d0", tolerates("k", nil))
	if _, err := client.ResourceV1().ResourceClaims("ns").Update(t.Context(), now, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.ResourceV1().ResourceSlices().Create(t.Context(), tainted, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	runnertest.Eventually(t, gone(t, client, "p")) // by its driver's taint; the rule would have evicted q as well
	if is, _ := gone(t, client, "q")(); is {
		t.Error("a rule counted without its feature gate")
	}
}
