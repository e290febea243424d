package disruption

import (
	"fmt"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v1"
	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	scalefake "k8s.io/client-go/scale/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

var start = time.Unix(10000, 0)

// sizes are the scales that owners have, by resource and name; -1 stands for an answer that fails.
type sizes map[string]int32

func (s sizes) client() *scalefake.FakeScaleClient {
	client := &scalefake.FakeScaleClient{}
	client.AddReactor("get", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		get, _ := a.(clienttesting.GetAction)
		switch n, known := s[get.GetResource().Resource+"/"+get.GetName()]; {
		case !known:
			return false, nil, nil
		case n < 0:
			return true, nil, fmt.Errorf("out of order")
		default:
			return true, &autoscaling.Scale{Spec: autoscaling.ScaleSpec{Replicas: n}}, nil
		}
	})
	client.AddReactor("get", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, notFound(a.GetResource())
	})
	return client
}

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, gvk := range []schema.GroupVersionKind{
		{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "apps", Version: "v1", Kind: "ReplicaSet"},
		{Group: "apps", Version: "v1", Kind: "StatefulSet"}, {Group: "x.dev", Version: "v1", Kind: "Fleet"},
	} {
		m.Add(gvk, meta.RESTScopeNamespace)
	}
	return m
}

func run(t *testing.T, clock *clocktesting.FakeClock, s sizes,
	objects ...runtime.Object) (*fake.Clientset, *record.FakeRecorder) {
	t.Helper()
	client := runnertest.NewClient(objects...)
	return client, runnertest.Start(t, client, clock, func(env runner.Env) (runner.Controller, error) {
		return New(env, s.client(), mapper())
	})
}

func budget(change func(*policy.PodDisruptionBudgetSpec)) *policy.PodDisruptionBudget {
	b := &policy.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", Generation: 4},
		Spec: policy.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}}}
	change(&b.Spec)
	return b
}

func most(value intstr.IntOrString) func(*policy.PodDisruptionBudgetSpec) {
	return func(s *policy.PodDisruptionBudgetSpec) { s.MaxUnavailable = &value }
}

func least(value intstr.IntOrString) func(*policy.PodDisruptionBudgetSpec) {
	return func(s *policy.PodDisruptionBudgetSpec) { s.MinAvailable = &value }
}

func ownedBy(name, apiVersion, kind, owner string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "a"}},
		Status: v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}}}
	if kind != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: owner,
			UID: types.UID(kind + "/" + owner), Controller: ptr.To(true)}}
	}
	return p
}

func replicaSet(name string, size int32, deployment string) *apps.ReplicaSet {
	s := &apps.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("ReplicaSet/" + name)},
		Spec: apps.ReplicaSetSpec{Replicas: &size}}
	if deployment != "" {
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment,
			UID: types.UID("Deployment/" + deployment), Controller: ptr.To(true)}}
	}
	return s
}

func statusOf(t *testing.T, client *fake.Clientset) (*policy.PodDisruptionBudget, string) {
	t.Helper()
	b, err := client.PolicyV1().PodDisruptionBudgets("ns").Get(t.Context(), "b", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, reason := b.Status, ""
	if c := meta.FindStatusCondition(s.Conditions, policy.DisruptionAllowedCondition); c != nil {
		reason = fmt.Sprint(c.Status, " ", c.Reason)
	}
	return b, fmt.Sprintln(s.ExpectedPods, s.DesiredHealthy, s.CurrentHealthy, s.DisruptionsAllowed, reason)
}

// TestExpectedCounts adds up what the owners of the pods want, each owner once, as far up as there is one.
func TestExpectedCounts(t *testing.T) {
	one, half := intstr.FromInt32(1), intstr.FromString("50%")
	pods := func(all ...*v1.Pod) []runtime.Object {
		var objects []runtime.Object
		for _, p := range all {
			objects = append(objects, p)
		}
		return objects
	}
	web := func(name, set string) *v1.Pod { return ownedBy(name, "apps/v1", "ReplicaSet", set) }
	for name, c := range map[string]struct {
		budget  *policy.PodDisruptionBudget
		sizes   sizes
		objects []runtime.Object
		want    string // expected, desired, healthy, allowed, condition
		event   string
	}{
		"a ReplicaSet of its own": {budget: budget(most(one)), objects: append(pods(web("p", "rs"), web("q", "rs")),
			replicaSet("rs", 3, "")), want: "3 2 2 0 False InsufficientPods\n"},
		"a Deployment with two sets": {budget: budget(most(one)), sizes: sizes{"deployments/d": 4},
			objects: append(pods(web("p", "r1"), web("q", "r2"), web("r", "r2"), web("s", "r2")),
				replicaSet("r1", 2, "d"), replicaSet("r2", 3, "d")), want: "4 3 4 1 True SufficientPods\n"},
		"a StatefulSet": {budget: budget(least(half)), sizes: sizes{"statefulsets/s": 5},
			objects: pods(ownedBy("p", "apps/v1", "StatefulSet", "s")), want: "5 3 1 0 False InsufficientPods\n"},
		"a custom kind": {budget: budget(least(half)), sizes: sizes{"fleets/f": 2},
			objects: pods(ownedBy("p", "x.dev/v1", "Fleet", "f"), ownedBy("q", "x.dev/v1", "Fleet", "f")),
			want:    "2 1 2 1 True SufficientPods\n"},
		"two owners": {budget: budget(most(one)), sizes: sizes{"fleets/f": 2, "statefulsets/s": 1},
			objects: pods(ownedBy("p", "x.dev/v1", "Fleet", "f"), ownedBy("q", "apps/v1", "StatefulSet", "s")),
			want:    "3 2 2 0 False InsufficientPods\n"},
		"unmanaged beside managed": {budget: budget(most(one)), sizes: sizes{"statefulsets/s": 2},
			objects: pods(ownedBy("p", "apps/v1", "StatefulSet", "s"), ownedBy("q", "", "", "")),
			want:    "2 1 2 1 True SufficientPods\n",
			event: "Warning UnmanagedPods Pods selected by this PodDisruptionBudget (selector: " +
				"&LabelSelector{MatchLabels:map[string]string{app: a,},MatchExpressions:[]LabelSelectorRequirement{},}) " +
				"were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may " +
				"result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB " +
				"to an integer value."},
		"an integer needs no owner": {budget: budget(least(one)), objects: pods(ownedBy("p", "", "", ""),
			ownedBy("q", "apps/v1", "StatefulSet", "none")), want: "2 1 2 1 True SufficientPods\n"},
		"asks for nothing": {budget: budget(func(*policy.PodDisruptionBudgetSpec) {}),
			objects: pods(ownedBy("p", "", "", "")), want: "0 0 1 0 False InsufficientPods\n"},
		"no pods": {budget: budget(most(one)), want: "0 0 0 0 False InsufficientPods\n",
			event: "Normal NoPods No matching pods found"},
		"an owner that can't be read": {budget: budget(most(one)), sizes: sizes{"statefulsets/s": -1},
			objects: pods(ownedBy("p", "apps/v1", "StatefulSet", "s")), want: "0 0 0 0 False SyncFailed\n",
			event: "Warning CalculateExpectedPodCountFailed Failed to calculate the number of expected pods: out of order"},
		"an owner without a scale": {budget: budget(most(one)),
			objects: pods(ownedBy("p", "apps/v1", "StatefulSet", "s")), want: "0 0 0 0 False SyncFailed\n",
			event: "Warning CalculateExpectedPodCountFailed "},
		"an owner of a kind that is not served": {budget: budget(most(one)),
			objects: pods(ownedBy("p", "y.dev/v1", "Nothing", "s")), want: "0 0 0 0 False SyncFailed\n",
			event: "Warning CalculateExpectedPodCountFailed "},
	} {
		t.Run(name, func(t *testing.T) {
			client, events := run(t, clocktesting.NewFakeClock(start), c.sizes, append(c.objects, c.budget)...)
			runnertest.Eventually(t, func() (bool, string) {
				b, got := statusOf(t, client)
				return got == c.want && (b.Status.ObservedGeneration == 4 || c.sizes["statefulsets/s"] < 0 ||
					c.event == "Warning CalculateExpectedPodCountFailed "), got
			})
			if c.event != "" {
				runnertest.Saw(t, events, c.event)
			}
		})
	}
}

// TestLateEviction counts a granted eviction that never came until its time is over, and tells about it.
func TestLateEviction(t *testing.T) {
	clock := clocktesting.NewFakeClock(start)
	b := budget(least(intstr.FromInt32(1)))
	b.Status.DisruptedPods = map[string]metav1.Time{"p": metav1.NewTime(start.Add(-time.Minute))}
	client, events := run(t, clock, nil, b, ownedBy("p", "", "", ""), ownedBy("q", "", "", ""))
	expect := func(want string, granted int) {
		t.Helper()
		runnertest.Eventually(t, func() (bool, string) {
			b, got := statusOf(t, client)
			return got == want && len(b.Status.DisruptedPods) == granted, got
		})
	}
	expect("2 1 1 0 False InsufficientPods\n", 1)
	runnertest.Eventually(t, func() (bool, string) {
		clock.Step(time.Second)
		return clock.Since(start) > 62*time.Second,
			""
	})
	runnertest.Saw(t, events, "Warning NotDeleted Pod was expected by PDB ns/")
	expect("2 1 2 1 True SufficientPods\n", 0)
}

// TestStaleCondition takes back what was announced for a pod that is still there two minutes later.
func TestStaleCondition(t *testing.T) {
	clock := clocktesting.NewFakeClock(start)
	young := marked("EvictionByEvictionAPI", v1.ConditionTrue, start.Add(-time.Minute))
	kubelet := marked(v1.PodReasonTerminationByKubelet, v1.ConditionTrue, start.Add(-time.Hour))
	kubelet.Name = "k"
	client, _ := run(t, clock, nil, young, kubelet)
	condition := func(name string) v1.PodCondition {
		p, err := client.CoreV1().Pods("ns").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p.Status.Conditions[1]
	}
	runnertest.Eventually(t, func() (bool, string) {
		c := condition("p")
		if c.Status == v1.ConditionFalse && clock.Since(start) < time.Minute {
			t.Fatalf("taken back after %v", clock.Since(start))
		}
		if clock.HasWaiters() {
			clock.Step(time.Second)
		}
		return c.Status == v1.ConditionFalse && c.Reason == "" && c.Message == "", fmt.Sprint(c)
	})
	if c := condition("k"); c.Status != v1.ConditionTrue {
		t.Errorf("the kubelet's condition: %+v", c)
	}
}

// TestTwoBudgets tells that the budgets of a pod contradict each other, and keeps both up to date.
func TestTwoBudgets(t *testing.T) {
	other := budget(least(intstr.FromInt32(2)))
	other.Name = "c"
	client, events := run(t, clocktesting.NewFakeClock(start), nil, budget(least(intstr.FromInt32(1))), other)
	runnertest.Saw(t, events, "NoPods")
	if _, err := client.CoreV1().Pods("ns").Create(t.Context(), ownedBy("p", "", "", ""),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	runnertest.Saw(t, events,
		`Warning MultiplePodDisruptionBudgets Pod "ns"/"p" matches multiple PodDisruptionBudgets.  Chose "`)
	runnertest.Eventually(t, func() (bool, string) {
		all, err := client.PolicyV1().PodDisruptionBudgets("ns").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return all.Items[0].Status.CurrentHealthy == 1 && all.Items[1].Status.CurrentHealthy == 1, fmt.Sprint(all.Items)
	})
}

func notFound(resource schema.GroupVersionResource) error {
	return apierrors.NewNotFound(resource.GroupResource(), "x")
}
