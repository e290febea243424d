package kinds

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// oldLabel is the template of pods that are to run on nodes with a label which is no more.
func oldLabel(key string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeSelector: map[string]string{key: "x"}}}
}

// TestControllerWarnings: updates of replication controllers are told of the template that there was.
func TestControllerWarnings(t *testing.T) {
	warnings := replicationControllers(Deps{}).Strategy.Warnings
	controller := func(generation int64, label string) *corev1.ReplicationController {
		c := &corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Template: oldLabel(label)}}
		c.Name, c.Generation = "c", generation
		return c
	}
	const arch, os = "beta.kubernetes.io/arch", "beta.kubernetes.io/os"
	want := []string{`spec.template.spec.nodeSelector[` + os + `]: deprecated since v1.14; use "kubernetes.io/os" instead`}
	if got := warnings(t.Context(), controller(1, os), nil); !slices.Equal(got, want) {
		t.Errorf("of a new one: %q", got)
	}
	if got := warnings(t.Context(), controller(2, arch), controller(1, os)); !slices.Equal(got, want) {
		t.Errorf("of another template: %q", got)
	}
	if got := warnings(t.Context(), controller(1, os), controller(1, os)); len(got) > 0 {
		t.Errorf("of no change: %q", got)
	}
}

// TestScheduleWarnings: schedules that name their time zone are warned of whenever they are written again.
func TestScheduleWarnings(t *testing.T) {
	warnings := cronJobs(Deps{}).Strategy.Warnings
	job := func(generation int64, schedule string) *batchv1.CronJob {
		c := &batchv1.CronJob{Spec: batchv1.CronJobSpec{Schedule: schedule}}
		c.Spec.JobTemplate.Spec = batchv1.JobSpec{
			Template: *oldLabel("app.kubernetes.io/created-by"), CompletionMode: ptr.To(batchv1.IndexedCompletion),
			Completions: ptr.To[int32](100_001), Parallelism: ptr.To[int32](10_001),
		}
		c.Name, c.Generation = "c", generation
		return c
	}
	const many = "spec.jobTemplate.spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, " +
		"Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
	const label = "spec.jobTemplate.spec.template.spec.nodeSelector[app.kubernetes.io/created-by]: deprecated since v1.9"
	const zone = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, " +
		"see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
	const plain, zoned = "* * * * *", "CRON_TZ=UTC * * * * *"
	for name, tc := range map[string]struct{ got, want []string }{
		"new":       {warnings(t.Context(), job(1, plain), nil), []string{many, label}},
		"unchanged": {warnings(t.Context(), job(1, zoned), job(1, zoned)), []string{zone}},
		"changed":   {warnings(t.Context(), job(2, zoned), job(1, zoned)), []string{many, label, zone}},
		"mended":    {warnings(t.Context(), job(1, plain), job(1, zoned)), nil},
	} {
		if !slices.Equal(tc.got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, tc.got, tc.want)
		}
	}
}

// TestSliceKeepsNodes: nodes that former versions named in the topology stay known when it is dropped.
func TestSliceKeepsNodes(t *testing.T) {
	slice := func(nodes ...string) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{}
		for _, n := range nodes {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{DeprecatedTopology: map[string]string{corev1.LabelHostname: n}})
		}
		return s
	}
	old, obj := slice("a", "b", "B_", ""), slice("b", "c", "B_", "", "a")
	obj.Endpoints[4].NodeName = ptr.To("own")
	endpointSlices().Strategy.PrepareUpdate(t.Context(), obj, old)
	var got []string
	for _, e := range obj.Endpoints {
		if e.DeprecatedTopology != nil {
			t.Errorf("topology %v", e.DeprecatedTopology)
		}
		got = append(got, ptr.Deref(e.NodeName, "none"))
	}
	if want := []string{"b", "none", "none", "none", "own"}; !slices.Equal(got, want) {
		t.Errorf("got nodes %q, want %q", got, want)
	}
	same := slice("a")
	if endpointSlices().Strategy.PrepareUpdate(t.Context(), same, slice("a")); same.Endpoints[0].DeprecatedTopology == nil {
		t.Error("endpoints that stay lost their topology")
	}
}

// TestDriverPreventsScheduling: what belongs to a feature that is off may be changed by whoever has it.
func TestDriverPreventsScheduling(t *testing.T) {
	driver := func(prevent *bool) *storagev1.CSIDriver {
		d := &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: prevent}}
		d.Generation = 1
		return d
	}
	for _, tc := range []struct{ is, was, want *bool }{
		{ptr.To(true), nil, nil},
		{ptr.To(true), ptr.To(false), ptr.To(true)},
		{nil, ptr.To(true), nil},
	} {
		obj, old := driver(tc.is), driver(tc.was)
		csiDrivers().Strategy.PrepareUpdate(t.Context(), obj, old)
		if got := obj.Spec.PreventPodSchedulingIfMissing; !ptr.Equal(got, tc.want) || (obj.Generation == 2) != !ptr.Equal(got, tc.was) {
			t.Errorf("%v after %v: got %v of generation %d", tc.is, tc.was, got, obj.Generation)
		}
	}
}

// TestSetWarnings: claims for the pods of a set are looked at like claims, where upstream says that they are.
func TestSetWarnings(t *testing.T) {
	set := &appsv1.StatefulSet{}
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{Spec: corev1.PersistentVolumeClaimSpec{
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1500m")}},
	}}}
	warnings := statefulSets(Deps{}).Strategy.Warnings
	const text = `.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer`
	if got := warnings(t.Context(), set, nil); !slices.Equal(got, []string{"spec.volumeClaimTemplates[0]" + text}) {
		t.Errorf("of a new one: %q", got)
	}
	if got := warnings(t.Context(), set, set); !slices.Equal(got, []string{"spec.volumeClaimTemplates[0].Spec" + text}) {
		t.Errorf("of an update: %q", got)
	}
}
