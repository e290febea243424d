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
		desired: env.Gauge(subsystem, "desired_replicas", "Replicas that an autoscaler wants.", "namespace", "hpa_name"),
	}
}

// observe counts one decision, from current to desired replicas.
func (m meters) observe(current, desired int32, rescaled bool, took time.Duration, err error) {
	action, kind := "none", "none"
	switch {
	case rescaled && desired > current:
		action = "scale_up"
	case rescaled && desired < current:
		action = "scale_down"
	}
	if e := (*scaleError)(nil); errors.As(err, &e) && apierrors.IsNotFound(e.err) {
		kind = "spec"
	} else if err != nil {
		kind = "internal"
	}
	m.total.WithLabelValues(action, kind).Inc()
	m.took.WithLabelValues(action, kind).Observe(took.Seconds())
}
