package rootca

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"quintet.dev/quintet/components/controllers/runner"
)

type metrics struct {
	syncs *prometheus.CounterVec
	took  *prometheus.HistogramVec
}

func newMetrics(env runner.Env) metrics {
	const subsystem = "root_ca_cert_publisher"
	return metrics{
		syncs: env.Counter(subsystem, "sync_total", "Namespaces looked at, by the code of the answer.", "code"),
		took: env.Histogram(subsystem, "sync_duration_seconds", "How long a namespace took, by the code of the answer.",
			prometheus.ExponentialBuckets(0.001, 2, 15), "code"),
	}
}

// observe counts one namespace.
func (m metrics) observe(took time.Duration, err error) {
	code := "200"
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Code != 0 {
		code = strconv.Itoa(int(status.Status().Code))
	} else if err != nil {
		code = "500"
	}
	m.syncs.WithLabelValues(code).Inc()
	m.took.WithLabelValues(code).Observe(took.Seconds())
}
