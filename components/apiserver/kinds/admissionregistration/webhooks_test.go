package admissionregistration

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// TestGenerationOfWebhooks: an empty list of webhooks is none once it is stored, and no change then; sent again it is
// one.
func TestGenerationOfWebhooks(t *testing.T) {
	kind := validatingWebhooks()
	old := &admissionv1.ValidatingWebhookConfiguration{Webhooks: []admissionv1.ValidatingWebhook{}}
	old.Generation = 1
	for want, list := range map[int64][]admissionv1.ValidatingWebhook{1: nil, 2: {}} {
		obj := old.DeepCopy()
		obj.Webhooks = list
		if kind.Strategy.PrepareUpdate(t.Context(), obj, old); obj.Generation != want {
			t.Errorf("%#v: %d", list, obj.Generation)
		}
	}
}
