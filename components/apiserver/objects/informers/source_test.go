package informers

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// feeds tells of one object, and of each feed that has ended.
type feeds struct{ ended chan struct{} }

func (f feeds) Feed(ctx context.Context, _ schema.GroupResource, changed func(old, new api.Object),
	synced func()) error {
	changed(nil, &corev1.Pod{})
	synced()
	<-ctx.Done()
	f.ended <- struct{}{}
	return nil
}

// TestListsEnd: the feed of a list without a following watch, or of one that fails, ends.
func TestListsEnd(t *testing.T) {
	ended := make(chan struct{}, 2)
	s := &source{feeder: feeds{ended}, form: form{new: func() api.Object { return &corev1.Pod{} }}}
	for range 2 {
		if _, err := s.list(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	<-ended // the first
	s.convert = func(api.Object) (api.Object, error) { return nil, errors.New("of no version") }
	if _, err := s.list(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("what can't be converted is listed")
	}
	<-ended
}
