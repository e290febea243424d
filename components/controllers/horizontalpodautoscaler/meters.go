package horizontalpodautoscaler

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	listers "k8s.io/client-go/listers/autoscaling/v2"

	"quintet.dev/quintet/components/controllers/runner"
)

// meters are the metrics of upstream's controller.
type meters struct {
	total   *prometheus.CounterVec
	took    *prometheus.HistogramVec
	desired *prometheus.GaugeVec
	// of one metric each
	computations *prometheus.CounterVec
	computing    *prometheus.HistogramVec
}

func newMeters(env runner.Env, autoscalers listers.HorizontalPodAutoscalerLister) meters {
	const subsystem = "horizontal_pod_autoscaler_controller"
	env.GaugeFunc(subsystem, "num_horizontal_pod_autoscalers", "Autoscalers that are decided on.", func() float64 {
		all, err := autoscalers.List(labels.Everything())
		if err != nil {
			return 0
		}
		return float64(len(all))
	})
	return meters{
		total: env.Counter(subsystem, "reconciliations_total", "Decisions, by action (scale_up, scale_down, none) and "+
			"error (spec, internal, none).", "action", "error"),
		took: env.Histogram(subsystem, "reconciliation_duration_seconds", "How long a decision took.",
			prometheus.ExponentialBuckets(0.001, 2, 15), "action", "error"),
		computations: env.Counter(subsystem, "metric_computation_total", "Metrics that were computed, by action, error and "+
			"type.", "action", "error", "metric_type"),
		computing: env.Histogram(subsystem, "metric_computation_duration_seconds", "How long it took to compute a metric.",
			prometheus.ExponentialBuckets(0.001, 2, 15), "action", "error", "metric_type"),
		desired: env.Gauge(subsystem, "desired_replicas", "Replicas that an autoscaler wants.", "namespace", "hpa_name"),
	}
}

// observe counts one decision, from current to desired replicas.
func (m meters) observe(current, desired int32, rescaled bool, took time.Duration, err error) {
	action, kind := "none", "none"
	if rescaled {
		action = direction(current, desired)
	}
	if e := (*scaleError)(nil); errors.As(err, &e) && apierrors.IsNotFound(e.err) {
		kind = "spec"
	} else if err != nil {
		kind = "internal"
	}
	m.total.WithLabelValues(action, kind).Inc()
	m.took.WithLabelValues(action, kind).Observe(took.Seconds())
}

// computation counts one metric, of an autoscaler whose target has current replicas.
func (m meters) computation(current int32, c computed) {
	action, kind := direction(current, c.replicas), "none"
	if c.err != nil {
		action, kind = "none", "internal"
		if errors.Is(c.err, errUnknownType) {
			kind = "spec"
		}
	}
	m.computations.WithLabelValues(action, kind, string(c.metric)).Inc()
	m.computing.WithLabelValues(action, kind, string(c.metric)).Observe(c.took.Seconds())
}

func direction(current, desired int32) string {
	switch {
	case desired > current:
		return "scale_up"
	case desired < current:
		return "scale_down"
	}
	return "none"
}
