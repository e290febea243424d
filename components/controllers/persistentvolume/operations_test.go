package persistentvolume

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"quintet.dev/quintet/components/controllers/runner"
)

// TestOperations: an operation is measured once, from its first beginning.
func TestOperations(t *testing.T) {
	o, start, k := newOperations(runner.Env{}), time.Unix(0, 0), key{"ns", "claim"}
	o.end(k, "provision", start) // was not begun here
	o.begin(k, "driver", start)
	o.begin(k, "driver", start.Add(time.Second))
	o.end(k, "provision", start.Add(3*time.Second))
	o.end(k, "provision", start.Add(9*time.Second))
	var m dto.Metric
	took := o.took.WithLabelValues("driver", "provision").(prometheus.Metric)
	if err := took.Write(&m); err != nil {
		t.Fatal(err)
	}
	if h := m.GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() != 3 {
		t.Errorf("%d operations of %v s in all", h.GetSampleCount(), h.GetSampleSum())
	}
}
