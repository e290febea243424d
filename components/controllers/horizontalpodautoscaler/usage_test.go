package horizontalpodautoscaler

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var now = time.Unix(1_000_000, 0)

func defaults() Options {
	return Options{SyncPeriod: 15 * time.Second, DownscaleStabilization: 5 * time.Minute, Tolerance: 0.1,
		CPUInitializationPeriod: 5 * time.Minute, InitialReadinessDelay: 30 * time.Second}
}

// pod has run and been ready for an hour, and requests one CPU.
func pod(name string, change ...func(*v1.Pod)) *v1.Pod {
	start := metav1.NewTime(now.Add(-time.Hour))
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "web"}},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}}}}},
		Status: v1.PodStatus{Phase: v1.PodRunning, StartTime: &start,
			Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: start}}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func pending(p *v1.Pod) { p.Status.Phase = v1.PodPending }
func failed(p *v1.Pod)  { p.Status.Phase = v1.PodFailed }
func leaving(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }

// readiness sets since when a pod runs, and since when it is ready or not.
func readiness(status v1.ConditionStatus, started, changed time.Duration) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Status.StartTime = &metav1.Time{Time: now.Add(-started)}
		p.Status.Conditions[0].Status = status
		p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-changed))
	}
}

// values are samples of pods p0, p1, ...; negative: none.
func values(all ...int64) map[string]PodMetric {
	m := map[string]PodMetric{}
	for i, v := range all {
		if v >= 0 {
			m[fmt.Sprint("p", i)] = PodMetric{Value: v, Timestamp: now, Window: time.Minute}
		}
	}
	return m
}

func some(count int, change ...func(*v1.Pod)) []*v1.Pod {
	var all []*v1.Pod
	for i := range count {
		all = append(all, pod(fmt.Sprint("p", i), change...))
	}
	return all
}

func load(pods []*v1.Pod) workload {
	return workload{pods: pods, replicas: int32(len(pods)), now: now, tolerance: tolerance{0.1, 0.1}, options: defaults()}
}

func TestSizeByUtilization(t *testing.T) {
	with := func(count int, last ...func(*v1.Pod)) []*v1.Pod {
		return append(some(count-1), pod(fmt.Sprint("p", count-1), last...))
	}
	for name, tc := range map[string]struct {
		pods    []*v1.Pod
		samples map[string]PodMetric
		target  int32
		want    string // replicas, percent
	}{
		"twice the target":        {some(3), values(1000, 1000, 1000), 50, "6 100"},
		"half the target":         {some(4), values(250, 250, 250, 250), 50, "2 25"},
		"within tolerance":        {some(3), values(540, 540, 540), 50, "3 54"},
		"just outside":            {some(10), values(560, 560, 560, 560, 560, 560, 560, 560, 560, 560), 50, "12 56"},
		"rounded up":              {some(3), values(600, 600, 600), 50, "4 60"},
		"missing when up":         {some(3), values(1000, 1000, -1), 50, "4 100"},
		"missing when down":       {some(4), values(100, 100, 100, -1), 50, "3 10"},
		"missing when far down":   {some(10), values(10, 10, 10, 10, 10, 10, 10, 10, 10, -1), 50, "2 1"},
		"missing turns it around": {some(2), values(300, -1), 50, "2 30"},
		"pending when up":         {with(3, pending), values(1000, 1000, -1), 50, "4 100"},
		"pending when down":       {with(3, pending), values(100, 100, -1), 50, "1 10"},
		"failed doesn't count":    {with(3, failed), values(1000, 1000, 1000), 50, "4 100"},
		"leaving doesn't count":   {with(3, leaving), values(1000, 1000, 1000), 50, "4 100"},
		"never ready": {with(3, readiness(v1.ConditionFalse, time.Hour, time.Hour-time.Second)),
			values(1000, 1000, 1000), 50, "4 100"},
		"was ready once": {with(3, readiness(v1.ConditionFalse, time.Hour, time.Minute)), values(1000, 1000, 1000),
			50, "6 100"},
		"starting, sample too old": {with(3, readiness(v1.ConditionTrue, time.Minute, 30*time.Second)),
			values(1000, 1000, 1000), 50, "4 100"},
		"starting, sample whole": {with(3, readiness(v1.ConditionTrue, 3*time.Minute, time.Minute)),
			values(1000, 1000, 1000), 50, "6 100"},
		"more than the request":   {some(2), values(3000, 3000), 200, "3 300"},
		"missing, target above 1": {some(4), values(1000, 1000, 1000, -1), 200, "3 100"},
	} {
		w := load(tc.pods)
		requests, err := w.requests(v1.ResourceCPU, "")
		if err != nil {
			t.Fatal(err)
		}
		size, used, err := w.size(tc.samples, v1.ResourceCPU, ofRequests(requests, tc.target))
		if got := fmt.Sprint(size, used.percent); err != nil || got != tc.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, tc.want)
		}
	}
}

func TestSizeByValue(t *testing.T) {
	for name, tc := range map[string]struct {
		pods    []*v1.Pod
		samples map[string]PodMetric
		want    string // replicas, mean
	}{
		"up":                {some(3), values(20000, 10000, 30000), "6 20000"},
		"down":              {some(4), values(1000, 1000, 1000, 1000), "1 1000"},
		"on target":         {some(2), values(10000, 10000), "2 10000"},
		"missing when down": {some(2), values(1000, -1), "2 1000"},
		"starting counts, as it isn't CPU": {some(2, readiness(v1.ConditionTrue, time.Second, time.Second)),
			values(20000, 20000), "4 20000"},
	} {
		size, used, err := load(tc.pods).size(tc.samples, "", plain(10000))
		if got := fmt.Sprint(size, used.value); err != nil || got != tc.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, tc.want)
		}
	}
	if _, _, err := load(some(2, pending)).size(values(1, 1), "", plain(1)); err != errNoSamples {
		t.Errorf("no pod is ready: %v", err)
	}
	foreign := map[string]PodMetric{"other": {Value: 1}}
	if _, _, err := load(some(1)).size(foreign, v1.ResourceCPU, ofRequests(map[string]int64{"p0": 1},
		50)); err != errNoKnown {
		t.Errorf("no pod is known: %v", err)
	}
}

func TestRequests(t *testing.T) {
	cpu := func(text string) v1.ResourceRequirements {
		return v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(text)}}
	}
	second := func(p *v1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "b", Resources: cpu("200m")})
	}
	sidecar := func(p *v1.Pod) {
		p.Spec.InitContainers = []v1.Container{{Name: "init"},
			{Name: "side", Resources: cpu("50m"), RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways)}}
	}
	bare := func(p *v1.Pod) { p.Spec.Containers[0].Resources = v1.ResourceRequirements{} }
	whole := func(p *v1.Pod) { p.Spec.Resources = ptr.To(cpu("3")) }
	for name, tc := range map[string]struct {
		pod       *v1.Pod
		container string
		want      string
	}{
		"one":               {pod("p"), "", "1000"},
		"two":               {pod("p", second), "", "1200"},
		"named":             {pod("p", second), "b", "200"},
		"sidecar":           {pod("p", sidecar), "", "1050"},
		"named sidecar":     {pod("p", sidecar), "side", "50"},
		"of the pod":        {pod("p", bare, whole), "", "3000"},
		"named, of the pod": {pod("p", whole), "main", "1000"},
		"none":              {pod("p", bare), "", "missing request for cpu in container main of Pod p"},
		"no such container": {pod("p"), "x", "container x not found in Pod p"},
	} {
		requests, err := load([]*v1.Pod{tc.pod}).requests(v1.ResourceCPU, tc.container)
		got := fmt.Sprint(requests["p"])
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// Whatever is missing or not ready: the number of pods never changes against the direction that the samples ask for,
// and all the same samples with nothing missing ask for at least as great a change.
func TestMissingPodsOnlyDampen(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		count := 1 + random.IntN(12)
		pods := some(count)
		samples := map[string]PodMetric{}
		for _, p := range pods {
			switch random.IntN(5) {
			case 0:
				pending(p)
			case 1: // missing
			default:
				samples[p.Name] = PodMetric{Value: random.Int64N(3000), Timestamp: now, Window: time.Minute}
			}
		}
		w := load(pods)
		size, used, err := w.size(samples, "", plain(1000))
		if err != nil {
			if len(samples) == 0 && err == errNoSamples {
				continue
			}
			t.Fatal(err)
		}
		dense := len(samples) == count
		if !dense && ((used.ratio > 1.1 && size < w.replicas) || (used.ratio < 0.9 && size > w.replicas)) {
			t.Fatalf("ratio %v turned %d pods into %d", used.ratio, w.replicas, size)
		}
		if bound := ceil(used.ratio * float64(count)); used.ratio > 1 && size > max(bound, w.replicas) {
			t.Fatalf("ratio %v: %d pods of %d, more than %d", used.ratio, size, w.replicas, bound)
		}
	}
}

func TestCeilStaysInRange(t *testing.T) {
	if ceil(1e300) != 1<<31-1 || ceil(-1e300) != -1<<31 || ceil(1.2) != 2 {
		t.Error(ceil(1e300), ceil(-1e300), ceil(1.2))
	}
	if got := sum([]int64{1 << 62, 1 << 62, 5}); got != 1<<63-1 {
		t.Error(got)
	}
}
