package tainteviction

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

var start = time.Unix(100000, 0)

func taint(key string, added *time.Time) v1.Taint {
	t := v1.Taint{Key: key, Effect: v1.TaintEffectNoExecute}
	if added != nil {
		at := metav1.NewTime(*added)
		t.TimeAdded = &at
	}
	return t
}

func node(taints ...v1.Taint) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: v1.NodeSpec{Taints: taints}}
}

func pod(name string, tolerations ...v1.Toleration) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid-p"},
		Spec: v1.PodSpec{NodeName: "n", Tolerations: tolerations}, Status: v1.PodStatus{Phase: v1.PodRunning}}
}

func seconds(n int64) v1.Toleration {
	return v1.Toleration{Operator: v1.TolerationOpExists, TolerationSeconds: ptr.To(n)}
}

func run(t *testing.T, clock *clocktesting.FakeClock, objects ...runtime.Object) (*fake.Clientset,
	*record.FakeRecorder) {
	t.Helper()
	client := runnertest.NewClient(objects...)
	return client, runnertest.Start(t, client, clock, func(env runner.Env) (runner.Controller, error) { return New(env) })
}

// runUntilOneWaits also waits until a pod waits for its end.
func runUntilOneWaits(t *testing.T, clock *clocktesting.FakeClock, objects ...runtime.Object) (*fake.Clientset,
	*record.FakeRecorder) {
	t.Helper()
	client := runnertest.NewClient(objects...)
	var c *Controller
	events := runnertest.Start(t, client, clock, func(env runner.Env) (runner.Controller, error) {
		made, err := New(env)
		c = made
		return made, err
	})
	runnertest.Eventually(t, func() (bool, string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.pending) > 0, "nothing waits"
	})
	return client, events
}

// left waits until the pods that are there are these.
func left(t *testing.T, client *fake.Clientset, want string) {
	t.Helper()
	runnertest.Eventually(t, func() (bool, string) {
		all, err := client.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
		var names []string
		for _, p := range all.Items {
			names = append(names, p.Name)
		}
		return err == nil && strings.Join(names, " ") == want, fmt.Sprint(names, err)
	})
}

// TestEvictsAtOnce marks a pod that tolerates nothing before it deletes it, by its UID; those that may stay do.
func TestEvictsAtOnce(t *testing.T) {
	elsewhere := pod("elsewhere")
	elsewhere.Spec.NodeName = "m"
	unbound := pod("unbound")
	unbound.Spec.NodeName = ""
	client, events := run(t, clocktesting.NewFakeClock(start), node(taint("a", &start)), pod("p"), elsewhere, unbound,
		pod("stays", v1.Toleration{Key: "a", Operator: v1.TolerationOpExists}), pod("waits", seconds(60)))
	left(t, client, "elsewhere stays unbound waits")
	runnertest.Saw(t, events, "Normal TaintManagerEviction Marking for deletion Pod ns/p")
	var did []string
	for _, action := range client.Actions() {
		switch a := action.(type) {
		case clienttesting.PatchActionImpl:
			did = append(did, fmt.Sprint("patch ", a.Name, "/", a.Subresource))
			for _, part := range []string{`"type":"DisruptionTarget"`, `"status":"True"`, `"reason":"DeletionByTaintManager"`,
				`"message":"Taint manager: deleting due to NoExecute taint"`} {
				if !strings.Contains(string(a.Patch), part) {
					t.Errorf("%s lacks %s", a.Patch, part)
				}
			}
			if strings.Contains(string(a.Patch), "phase") {
				t.Errorf("ends the pod itself: %s", a.Patch)
			}
		case clienttesting.DeleteActionImpl:
			did = append(did, fmt.Sprint("delete ", a.Name, " ", *a.DeleteOptions.Preconditions.UID, " ",
				a.DeleteOptions.GracePeriodSeconds))
		}
	}
	if got := strings.Join(did, ", "); got != "patch p/status, delete p uid-p <nil>" {
		t.Error(got)
	}
}

// TestEvictsLater keeps a pod as long as it tolerates, counted from the taint's time or from when it was first seen.
func TestEvictsLater(t *testing.T) {
	before := start.Add(-20 * time.Second)
	for name, c := range map[string]struct {
		taint v1.Taint
		after time.Duration
	}{"told by the taint": {taint("a", &before), 40 * time.Second}, "first seen now": {taint("a", nil), time.Minute}} {
		clock := clocktesting.NewFakeClock(start)
		client, _ := run(t, clock, node(c.taint), pod("p", seconds(60)))
		runnertest.Eventually(t, func() (bool, string) {
			_, err := client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				if waited := clock.Since(start); waited < c.after {
					t.Errorf("%s: after %v", name, waited)
				}
				return true, ""
			}
			if clock.HasWaiters() {
				clock.Step(time.Second)
			}
			return false, fmt.Sprint(clock.Since(start))
		})
	}
}

// TestCancels: a pod that waits stays when the taint goes, and that is told.
func TestCancels(t *testing.T) {
	clock := clocktesting.NewFakeClock(start)
	client, events := runUntilOneWaits(t, clock, node(taint("a", &start)), pod("p", seconds(60)))
	if _, err := client.CoreV1().Nodes().Update(t.Context(), node(), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	runnertest.Saw(t, events, "Normal TaintManagerEviction Cancelling deletion of Pod ns/p")
	clock.Step(time.Hour)
	left(t, client, "p")
	if _, err := client.CoreV1().Nodes().Update(t.Context(), node(taint("b", &start)),
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	left(t, client, "")
}

// TestNewTolerations are taken into account.
func TestNewTolerations(t *testing.T) {
	clock := clocktesting.NewFakeClock(start)
	client, events := runUntilOneWaits(t, clock, node(taint("a", &start)), pod("p", seconds(60)))
	patient := pod("p", v1.Toleration{Key: "a", Operator: v1.TolerationOpExists})
	if _, err := client.CoreV1().Pods("ns").Update(t.Context(), patient, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	runnertest.Saw(t, events, "Cancelling deletion of Pod ns/p")
	clock.Step(time.Hour)
	left(t, client, "p")
}

// TestRemember: a taint without a time counts from its first sight, again after it was gone in between.
func TestRemember(t *testing.T) {
	clock := clocktesting.NewFakeClock(start)
	c := &Controller{first: map[string]map[v1.Taint]time.Time{}}
	c.env.Clock = clock
	a, b := taint("a", nil), taint("b", nil)
	at := func(step string, taint v1.Taint, want time.Duration) {
		t.Helper()
		if got := c.addedAt("n", taint).Sub(start); got != want {
			t.Errorf("%s: %v, want %v", step, got, want)
		}
	}
	c.remember("n", node(a))
	clock.Step(10 * time.Second)
	at("seen", a, 0)
	at("never seen", b, 10*time.Second)
	c.remember("n", node(a, b))
	clock.Step(10 * time.Second)
	at("still there", a, 0)
	at("came later", b, 10*time.Second)
	c.remember("n", node(b))
	c.remember("n", node(a, b))
	at("came back", a, 20*time.Second)
	at("stayed meanwhile", b, 10*time.Second)
	c.remember("n", node(v1.Taint{Key: "c", Effect: v1.TaintEffectNoSchedule}))
	c.remember("n", nil)
	if len(c.first) != 0 {
		t.Errorf("a node that is gone: %v", c.first)
	}
}

// TestDeadlineProperty compares with the definition: the earliest end of what is tolerated of any NoExecute taint.
func TestDeadlineProperty(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 9))
	keys := []string{"a", "b", "c"}
	for range 3000 {
		var taints []v1.Taint
		var tolerations []v1.Toleration
		since := map[string]time.Time{}
		for _, key := range keys[:random.IntN(4)] {
			effect := []v1.TaintEffect{v1.TaintEffectNoExecute, v1.TaintEffectNoSchedule}[random.IntN(2)]
			taints = append(taints, v1.Taint{Key: key, Effect: effect})
			since[key] = start.Add(time.Duration(random.IntN(100)) * time.Second)
		}
		for range random.IntN(4) {
			tol := v1.Toleration{Key: keys[random.IntN(3)], Operator: v1.TolerationOpExists}
			if random.IntN(2) == 0 {
				tol.TolerationSeconds = ptr.To(int64(random.IntN(100) - 5))
			}
			tolerations = append(tolerations, tol)
		}
		var want time.Time
		for _, x := range taints {
			if x.Effect != v1.TaintEffectNoExecute {
				continue
			}
			tolerated, limit := false, int64(-1)
			for _, tol := range tolerations {
				if tol.Key != x.Key {
					continue
				}
				tolerated = true
				if n := tol.TolerationSeconds; n != nil && (limit < 0 || max(*n, 0) < limit) {
					limit = max(*n, 0)
				}
			}
			if tolerated && limit < 0 {
				continue
			}
			due := since[x.Key].Add(time.Duration(max(limit, 0)) * time.Second)
			if want.IsZero() || due.Before(want) {
				want = due
			}
		}
		at, leave := deadline(taints, tolerations, func(x v1.Taint) time.Time { return since[x.Key] })
		if leave == want.IsZero() || (leave && !at.Equal(want)) {
			t.Fatalf("%v with %v: %v %v, want %v", taints, tolerations, at, leave, want)
		}
	}
}
