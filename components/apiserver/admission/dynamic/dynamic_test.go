package dynamic

import (
	"context"
	"errors"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects/informers"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// slow is a plug-in that takes its time to be ready.
type slow struct {
	*admission.Handler
	ready chan struct{}
}

func (s slow) WaitForReady() bool {
	<-s.ready
	return true
}

func (slow) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return errors.New("seen")
}

// TestOneMakingForAll: who gives up waiting for a plug-in to be made doesn't end its making, and the next one doesn't
// begin another.
func TestOneMakingForAll(t *testing.T) {
	store := &objectstest.Store{}
	store.Put(admissionregistrationv1.Resource("validatingwebhookconfigurations"),
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "x"},
		})
	config := &Config{
		Objects: store, Informers: informers.New(store, kinds.Table(api.Deps{})),
		Client: &rest.Config{Host: "http://127.0.0.1"},
		Kinds:  func() []*api.Kind { return nil },
	}
	begun, made, ready := make(chan struct{}, 2), 0, make(chan struct{})
	v := Validator{newLazy(config, "validatingwebhookconfigurations", beyondPolicies,
		func(parts) (admission.Interface, error) {
			made++
			begun <- struct{}{}
			return slow{admission.NewHandler(admission.Create), ready}, nil
		}, admission.Create)}
	validate := func(ctx context.Context) error {
		return v.Validate(ctx, admission.NewAttributesRecord(&corev1.Pod{}, nil, schema.GroupVersionKind{}, "ns", "p",
			corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil), nil)
	}
	running, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- v.Run(running) }()
	impatient, give := context.WithCancel(t.Context())
	go func() {
		<-begun
		give()
	}()
	for impatient.Err() == nil { // until Run has begun, and with it the making
		if err := validate(impatient); err == nil {
			t.Error("the impatient one was let in")
		}
	}
	close(ready)
	if err := validate(t.Context()); err == nil || err.Error() != "seen" {
		t.Errorf("the patient one: %v", err)
	}
	stop()
	if err := <-done; err != nil || made != 1 {
		t.Errorf("made %d times, %v", made, err)
	}
}
