package attachdetach

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/controllers/runner"
)

// TestMeters: an attachment is measured until it is attached, a detachment until the attachment is gone.
func TestMeters(t *testing.T) {
	m, start := newMeters(runner.Env{}), time.Unix(0, 0)
	m.attaching["a"] = operation{"n", "kubernetes.io/csi:d", start}
	m.attached("a", "success", start.Add(2*time.Second))
	m.attached("a", "success", start.Add(9*time.Second)) // is measured already
	m.detaching["a"] = operation{"n", "kubernetes.io/csi:d", start}
	still := &view{name: "n", now: start.Add(time.Second),
		attachments: []*storagev1.VolumeAttachment{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}}
	m.detached(still)
	m.detached(&view{name: "other", now: start.Add(2 * time.Second)})
	m.detached(&view{name: "n", now: start.Add(3 * time.Second)})
	for name, want := range map[string]float64{"volume_attach": 2, "volume_detach": 3} {
		var got dto.Metric
		took := m.took.WithLabelValues("kubernetes.io/csi:d", name, "success", "false").(prometheus.Metric)
		if err := took.Write(&got); err != nil {
			t.Fatal(err)
		}
		if h := got.GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() != want {
			t.Errorf("%s: %d of %v s in all, want one of %v s", name, h.GetSampleCount(), h.GetSampleSum(), want)
		}
	}
	m.force(nil)
	taint := v1.Taint{Key: v1.TaintNodeOutOfService, Effect: v1.TaintEffectNoExecute}
	m.force(&v1.Node{Spec: v1.NodeSpec{Taints: []v1.Taint{taint}}})
	for _, reason := range []string{"timeout", "out-of-service"} {
		var got dto.Metric
		if err := m.forced.WithLabelValues(reason).Write(&got); err != nil || got.GetCounter().GetValue() != 1 {
			t.Errorf("forced by %s: %v, %v", reason, got.GetCounter(), err)
		}
	}
}
