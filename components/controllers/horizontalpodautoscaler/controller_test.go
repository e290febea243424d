package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	scalefake "k8s.io/client-go/scale/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeMetrics has a CPU usage of all pods that can be set.
type fakeMetrics struct {
	mu   sync.Mutex
	pods map[string]PodMetric
	err  error
}

func (f *fakeMetrics) report(pods map[string]PodMetric, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pods, f.err = pods, err
}

func (f *fakeMetrics) Resource(_ context.Context, _ string, pods labels.Selector, _ v1.ResourceName,
	_ string) (map[string]PodMetric, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if pods.String() != "app=web" {
		return nil, fmt.Errorf("asked for %s", pods)
	}
	return maps.Clone(f.pods), f.err
}

func (f *fakeMetrics) Pods(string, labels.Selector, labels.Selector, string) (map[string]PodMetric, error) {
	return nil, errors.New("no metrics of pods")
}

func (f *fakeMetrics) Object(string, autoscaling.CrossVersionObjectReference, labels.Selector, string) (int64, error) {
	return 0, errors.New("no metrics of objects")
}

func (f *fakeMetrics) External(string, labels.Selector, string) ([]int64, error) {
	return nil, errors.New("no metrics of anything else")
}

func (f *fakeMetrics) Refresh() {}

// target is a Deployment that has nothing but a scale.
type target struct {
	mu       sync.Mutex
	replicas int32
	conflict bool // for the next update
}

func (s *target) size() int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replicas
}

func (s *target) client() *scalefake.FakeScaleClient {
	c := &scalefake.FakeScaleClient{}
	c.AddReactor("get", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		replicas := s.size()
		return true, &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"},
			Spec:   autoscalingv1.ScaleSpec{Replicas: replicas},
			Status: autoscalingv1.ScaleStatus{Replicas: replicas, Selector: "app=web"}}, nil
	})
	c.AddReactor("update", "deployments", func(action clienttesting.Action) (bool, runtime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.conflict {
			s.conflict = false
			return true, nil, apierrors.NewConflict(schema.GroupResource{Group: "apps", Resource: "deployments"}, "web",
				errors.New("changed"))
		}
		given := action.(clienttesting.UpdateAction).GetObject().(*autoscalingv1.Scale)
		s.replicas = given.Spec.Replicas
		return true, given, nil
	})
	return c
}

func start(t *testing.T, client *fake.Clientset, s *target, m Metrics) *record.FakeRecorder {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{appsv1.SchemeGroupVersion})
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	options := defaults()
	options.SyncPeriod, options.DownscaleStabilization = 300*time.Millisecond, 0
	return runnertest.Start(t, client, clock.RealClock{}, func(env runner.Env) (runner.Controller, error) {
		return New(env, Sources{Scales: s.client(), Mapper: mapper, Metrics: m}, options)
	})
}

// await waits for the size of the target and a condition of the autoscaler.
func await(t *testing.T, client *fake.Clientset, name string, s *target, size int32,
	kind autoscaling.HorizontalPodAutoscalerConditionType, want string) *autoscaling.HorizontalPodAutoscaler {
	t.Helper()
	var hpa *autoscaling.HorizontalPodAutoscaler
	runnertest.Eventually(t, func() (bool, string) {
		var err error
		if hpa, err = client.AutoscalingV2().HorizontalPodAutoscalers("ns").Get(t.Context(), name,
			metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		got := condition(plan{status: hpa.Status}, kind)
		return s.size() == size && got == want, fmt.Sprintf("size %d, %s: %+v", s.size(), got, hpa.Status)
	})
	return hpa
}

func TestScalesTheTarget(t *testing.T) {
	hpa := scaler(1, 4, nil)
	hpa.Spec.Metrics = []autoscaling.MetricSpec{ofCPU(utilization(50))}
	client := runnertest.NewClient(hpa, pod("p0"), pod("p1"))
	s, m := &target{replicas: 2, conflict: true}, &fakeMetrics{pods: values(900, 900)}
	events := start(t, client, s, m)
	up := await(t, client, "web", s, 4, autoscaling.ScalingActive, "True ValidMetricFound")
	if up.Status.LastScaleTime == nil {
		t.Error("not said when")
	}
	runnertest.Saw(t, events,
		"Normal SuccessfulRescale New size: 4; reason: cpu resource utilization (percentage of request) above target")
	m.report(values(0, 0), nil)
	await(t, client, "web", s, 1, autoscaling.ScalingLimited, "True TooFewReplicas")
	runnertest.Saw(t, events, "Normal SuccessfulRescale New size: 1; reason: All metrics below target")
	m.report(nil, errors.New("gone"))
	await(t, client, "web", s, 1, autoscaling.ScalingActive, "False FailedGetResourceMetric")
	runnertest.Saw(t, events,
		"Warning FailedGetResourceMetric failed to get cpu utilization: unable to get metrics for resource cpu: gone")
	runnertest.Saw(t, events,
		"Warning FailedComputeMetricsReplicas invalid metrics (1 invalid out of 1), first error is: "+
			"failed to get cpu resource metric value: failed to get cpu utilization: unable to get metrics for resource cpu: "+
			"gone")
}

func TestSelectorConflictEnds(t *testing.T) {
	one, two := scaler(1, 4, nil), scaler(1, 4, nil)
	two.Name = "web2"
	one.Spec.Metrics = []autoscaling.MetricSpec{ofCPU(utilization(50))}
	two.Spec.Metrics = one.Spec.Metrics
	client := runnertest.NewClient(one, two, pod("p0"), pod("p1"))
	s := &target{replicas: 2}
	events := start(t, client, s, &fakeMetrics{pods: values(500, 500)})
	await(t, client, "web", s, 2, autoscaling.ScalingActive, "False AmbiguousSelector")
	await(t, client, "web2", s, 2, autoscaling.ScalingActive, "False AmbiguousSelector")
	runnertest.Saw(t, events,
		"Warning AmbiguousSelector pods by selector app=web are controlled by multiple HPAs: [ns/web ns/web2]")
	if err := client.AutoscalingV2().HorizontalPodAutoscalers("ns").Delete(t.Context(), "web2",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, client, "web", s, 2, autoscaling.ScalingActive, "True ValidMetricFound")
}

func TestTargetIsMissing(t *testing.T) {
	unknown, malformed := scaler(1, 4, nil), scaler(1, 4, nil)
	unknown.Spec.ScaleTargetRef.Kind = "Unheard"
	malformed.Name, malformed.Spec.ScaleTargetRef.APIVersion = "bad", "a/b/c"
	client := runnertest.NewClient(unknown, malformed)
	s := &target{replicas: 2}
	events := start(t, client, s, &fakeMetrics{})
	await(t, client, "web", s, 2, autoscaling.AbleToScale, "False FailedGetScale")
	bad := await(t, client, "bad", s, 2, autoscaling.AbleToScale, "False FailedGetScale")
	if got, want := bad.Status.Conditions[0].Message,
		"the HPA controller was unable to get the target's current scale: unexpected GroupVersion string: "+
			"a/b/c"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	runnertest.Saw(t, events, "Warning FailedGetScale unexpected GroupVersion string: a/b/c")
}
