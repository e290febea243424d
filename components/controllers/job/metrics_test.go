package job

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	batch "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/controllers/runner"
)

// TestMetrics: an end counts once, as do pods that end and lose the finalizer.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMetrics(runner.Env{Registry: registry})
	done := batch.JobStatus{Succeeded: 3, Failed: 1, Conditions: []batch.JobCondition{
		{Type: batch.JobComplete, Status: v1.ConditionTrue, Reason: batch.JobReasonCompletionsReached}}}
	m.wrote(&batch.Job{Status: batch.JobStatus{Succeeded: 1}}, &done)
	m.wrote(&batch.Job{Status: done}, &done)
	running := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{batch.JobTrackingFinalizer}}}
	ended := running.DeepCopy()
	ended.Status.Phase = v1.PodSucceeded
	free := ended.DeepCopy()
	free.Finalizers = nil
	for _, step := range [][2]*v1.Pod{{nil, running}, {running, ended}, {ended, ended}, {ended, free}, {free, nil}} {
		m.podChanged(step[0], step[1])
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.Metric {
			if metric.Counter != nil {
				got[family.GetName()] += metric.Counter.GetValue()
			}
		}
	}
	for name, want := range map[string]float64{"job_controller_jobs_finished_total": 1,
		"job_controller_job_pods_finished_total": 3, "job_controller_terminated_pods_tracking_finalizer_total": 2} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}
