package scheduler

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"quintet.dev/quintet/internal/delegated"
	"quintet.dev/quintet/internal/diagnostics"
	"quintet.dev/quintet/internal/health"
	"quintet.dev/quintet/internal/zpages"
)

// metrics carry upstream's names.
type metrics struct {
	registry  *prometheus.Registry
	tries     *prometheus.CounterVec
	latency   *prometheus.HistogramVec
	algorithm prometheus.Histogram
	attempts  prometheus.Histogram
	sli       *prometheus.HistogramVec
	incoming  *prometheus.CounterVec
	victims   prometheus.Histogram
	preempted prometheus.Counter
	late      prometheus.Counter
	events    *prometheus.HistogramVec
	evictions *prometheus.CounterVec
	evicting  *prometheus.HistogramVec
	leader    prometheus.Gauge
}

func newMetrics(more ...prometheus.Collector) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		tries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scheduler_schedule_attempts_total",
			Help: "[STABLE] Tries to schedule pods by result: scheduled, unschedulable or error.",
		}, []string{"profile", "result"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "scheduler_scheduling_attempt_duration_seconds",
			Help:    "[STABLE] Seconds from taking a pod to its binding or refusal.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, []string{"profile", "result"}),
		algorithm: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "scheduler_scheduling_algorithm_duration_seconds",
			Help:    "[ALPHA] Seconds a decision took.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}),
		attempts: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "scheduler_pod_scheduling_attempts",
			Help:    "[STABLE] Tries it took to schedule a pod.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 5),
		}),
		sli: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "scheduler_pod_scheduling_sli_duration_seconds",
			Help:    "[BETA] Seconds from seeing a pod to its binding.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 20),
		}, []string{"attempts"}),
		incoming: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scheduler_queue_incoming_pods_total",
			Help: "[STABLE] Pods put into a queue, by queue and cause.",
		}, []string{"queue", "event"}),
		victims: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "scheduler_preemption_victims",
			Help:    "[STABLE] Pods taken away to make room for one.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 7),
		}),
		preempted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "scheduler_preemption_attempts_total",
			Help: "[STABLE] Tries to make room for a pod by taking others away.",
		}),
		late: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "scheduler_pod_scheduled_after_flush_total",
			Help: "[ALPHA] Pods bound at a try that no event caused, but the longest time to be unschedulable.",
		}),
		events: newHistograms("scheduler_event_handling_duration_seconds",
			"[ALPHA] Seconds that the scheduler took to take in a change.",
			prometheus.ExponentialBuckets(0.0001, 2, 12), "event"),
		evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scheduler_preemption_goroutines_execution_total",
			Help: "[ALPHA] Evictions of all victims of a pod, by result.",
		}, []string{"result"}),
		evicting: newHistograms("scheduler_preemption_goroutines_duration_seconds",
			"[ALPHA] Seconds that the eviction of all victims of a pod took.",
			prometheus.ExponentialBuckets(0.01, 2, 20), "result"),
		leader: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "leader_election_master_status", Help: "1 while this instance schedules.",
			ConstLabels: prometheus.Labels{"name": lease},
		}),
	}
	m.registry.MustRegister(m.tries, m.latency, m.algorithm, m.attempts, m.sli, m.incoming, m.victims, m.preempted,
		m.late, m.events, m.evictions, m.evicting, m.leader)
	m.registry.MustRegister(more...)
	return m
}

func (m *metrics) attempt(result, profile string, took time.Duration) {
	m.tries.WithLabelValues(profile, result).Inc()
	m.latency.WithLabelValues(profile, result).Observe(took.Seconds())
}

func newWorkGauge() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "scheduler_goroutines", Help: "[BETA] Goroutines at work, by operation.",
	}, []string{"operation"})
}

// bindingChanged counts the goroutines that bind pods.
func (s *Scheduler) bindingChanged(change float64) {
	s.config.working.WithLabelValues("binding").Add(change)
}

// evicted measures how victims were evicted.
func (m *metrics) evicted(took time.Duration, failed bool) {
	result := "success"
	if failed {
		result = "error"
	}
	m.evictions.WithLabelValues(result).Inc()
	m.evicting.WithLabelValues(result).Observe(took.Seconds())
}

// prioritizing counts the extenders that are scoring nodes.
func (c *Config) prioritizing(change float64) {
	if c.working != nil {
		c.working.WithLabelValues("prioritizing_extender").Add(change)
	}
}

func newClaimCounter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scheduler_resourceclaim_creates_total",
		Help: "[ALPHA] Requests to create ResourceClaims, by status: success or failure.",
	}, []string{"status"})
}

func newVolumeErrors() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scheduler_volume_scheduling_stage_error_total",
		Help: "[ALPHA] Pods whose volumes could not be bound, by the stage that failed: assume or bind.",
	}, []string{"operation"})
}

// claimCreated counts a request to create a ResourceClaim.
func claimCreated(claims *prometheus.CounterVec, err error) {
	status := "success"
	if err != nil {
		status = "failure"
	}
	claims.WithLabelValues(status).Inc()
}

// attemptsLabel groups the many.
func attemptsLabel(attempts int) string {
	const many = 15
	if attempts >= many {
		return strconv.Itoa(many) + "+"
	}
	return strconv.Itoa(attempts)
}

// serve starts the health and metrics server, if there is to be one.
func (s *Scheduler) serve(ctx context.Context, group *errgroup.Group) error {
	c := &s.config
	listener, err := s.listen()
	if err != nil || listener == nil {
		return err
	}
	gate, err := delegated.New(ctx, c.Access, c.Clock)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &diagnostics.Server{
		Listener: listener, Gate: gate, Metrics: s.metrics.registry, Health: s.elected(),
		Live: []health.Check{health.Ping()}, Ready: s.ready(ctx), Certificate: s.serving, Serving: c.Serving,
		Profiling:     c.Profiling,
		Configuration: map[string]any{configz: c.configuration()},
		More:          map[string]http.Handler{"/metrics/resources": s.resources(), explainPath: s.explained()},
		Program:       zpages.New("kube-scheduler", c.Clock.Now, c.CommandLine),
	}
	group.Go(func() error { return server.Run(ctx) })
	return nil
}

// elected checks the leadership, if there is an election.
func (s *Scheduler) elected() []health.Check {
	watchdog := s.config.Leader.Watchdog
	if watchdog == nil {
		return nil
	}
	return []health.Check{{Name: watchdog.Name(), Probe: watchdog.Check}}
}

// ready are the checks of /readyz, with upstream's names.
func (s *Scheduler) ready(ctx context.Context) []health.Check {
	return append(s.elected(),
		health.Check{Name: "shutdown", Probe: func(*http.Request) error { return ctx.Err() }},
		health.Check{Name: "sched-handler-sync", Probe: func(*http.Request) error {
			if !s.synced.Load() {
				return errors.New("handlers are not fully synchronized")
			}
			return nil
		}})
}
