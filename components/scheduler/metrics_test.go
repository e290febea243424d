package scheduler

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// upstreamMetrics are those of kube-scheduler 1.36, with the labels, and what is measured here. Those are left out that
// need what isn't there: groups of pods, batches of equal pods, and a dispatcher of API calls.
const upstreamMetrics = `
scheduler_cache_size ALPHA type
scheduler_dra_bindingconditions_allocations_total ALPHA profile,driver,status
scheduler_dra_bindingconditions_wait_duration_seconds ALPHA profile,driver,status
scheduler_event_handling_duration_seconds ALPHA event
scheduler_framework_extension_point_duration_seconds STABLE extension_point,status,profile
scheduler_goroutines BETA operation
scheduler_inflight_events ALPHA event
scheduler_pending_pods STABLE queue
scheduler_permit_wait_duration_seconds BETA result
scheduler_plugin_evaluation_total BETA plugin,extension_point,profile
scheduler_plugin_execution_duration_seconds ALPHA plugin,extension_point,status
scheduler_pod_scheduled_after_flush_total ALPHA
scheduler_pod_scheduling_attempts STABLE
scheduler_pod_scheduling_sli_duration_seconds BETA attempts
scheduler_preemption_attempts_total STABLE
scheduler_preemption_goroutines_duration_seconds ALPHA result
scheduler_preemption_goroutines_execution_total ALPHA result
scheduler_preemption_victims STABLE
scheduler_queue_incoming_pods_total STABLE queue,event
scheduler_queueing_hint_execution_duration_seconds ALPHA plugin,event,hint
scheduler_resourceclaim_creates_total ALPHA status
scheduler_schedule_attempts_total STABLE profile,result
scheduler_scheduling_algorithm_duration_seconds ALPHA
scheduler_scheduling_attempt_duration_seconds STABLE profile,result
scheduler_volume_scheduling_stage_error_total ALPHA operation
scheduler_unschedulable_pods BETA plugin,profile
`

// TestMetricsOfUpstream: the metrics are those of the list, with their labels and stability.
func TestMetricsOfUpstream(t *testing.T) {
	q := queue.New(queue.Config{Clock: clocktesting.NewFakeClock(time.Unix(0, 0))})
	devices := newDeviceMetrics()
	all := append(newPluginMetrics().collectors(), newState(q, snapshot.New().Sizes), newClaimCounter(), newWorkGauge(),
		devices.waits, devices.took, newVolumeErrors())
	registry := newMetrics(all...).registry
	described := make(chan *prometheus.Desc, 100)
	registry.Describe(described)
	close(described)
	var got []string
	for d := range described {
		name := between(d.String(), `fqName: "`, `"`)
		if !strings.HasPrefix(name, "scheduler_") {
			continue
		}
		words := []string{name, between(d.String(), `help: "[`, "]"), between(d.String(), "variableLabels: {", "}")}
		got = append(got, strings.TrimSpace(strings.Join(words, " ")))
	}
	slices.Sort(got)
	want := strings.Split(strings.TrimSpace(upstreamMetrics), "\n")
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("missing: %s", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("not upstream's: %s", line)
		}
	}
}

func between(s, before, after string) string {
	_, s, _ = strings.Cut(s, before)
	s, _, _ = strings.Cut(s, after)
	return s
}

// TestMeasuresPlugins: each extension point is measured, each plug-in in some decisions only.
func TestMeasuresPlugins(t *testing.T) {
	profiles, _, err := build(detached("p"))
	if err != nil {
		t.Fatal(err)
	}
	m := newPluginMetrics()
	profile := profiles["p"].cycle
	profile.Observer = &profileObserver{pluginMetrics: m, clock: clocktesting.NewFakeClock(time.Unix(0, 0)), profile: "p"}
	s := snapshot.New()
	s.SetNode(newNode("a", "4"))
	s.SetNode(newNode("b", "4"))
	schedule := func(cpu string, measure bool) {
		profile.Schedule(s, cycle.Request{Pod: snapshot.NewPod(newPod("x", cpu)), Measure: measure})
	}
	schedule("1", false)
	schedule("8", false)
	if got := counts(t, m.plugins, "extension_point"); len(got) != 0 {
		t.Errorf("plug-ins were measured without being asked to be: %v", got)
	}
	schedule("1", true)
	want := map[string]int{"PreFilter Success": 3, "Filter Success": 3, "Score Success": 2, "PostFilter Unschedulable": 1}
	if got := counts(t, m.points, "extension_point", "status"); !maps.Equal(got, want) {
		t.Errorf("extension points %v, want %v", got, want)
	}
	if got := counts(t, m.plugins, "plugin", "extension_point")["NodeResourcesFit Filter"]; got != 2 {
		t.Errorf("NodeResourcesFit was measured %d times", got)
	}
	evaluated := counts(t, m.evaluated, "plugin", "extension_point")
	if evaluated["NodeResourcesFit Filter"] != 6 || evaluated["NodeResourcesFit PreFilter"] != 3 ||
		evaluated["NodeResourcesFit Score"] != 4 {
		t.Errorf("evaluated %v", evaluated)
	}
}

// counts are how often something was counted or measured, by some labels.
func counts(t *testing.T, c prometheus.Collector, labels ...string) map[string]int {
	t.Helper()
	collected := make(chan prometheus.Metric, 1000)
	c.Collect(collected)
	close(collected)
	out := map[string]int{}
	for metric := range collected {
		var m dto.Metric
		if err := metric.Write(&m); err != nil {
			t.Fatal(err)
		}
		var key []string
		for _, name := range labels {
			for _, l := range m.Label {
				if l.GetName() == name {
					key = append(key, l.GetValue())
				}
			}
		}
		out[strings.Join(key, " ")] += int(m.GetCounter().GetValue()) + int(m.GetHistogram().GetSampleCount())
	}
	return out
}
