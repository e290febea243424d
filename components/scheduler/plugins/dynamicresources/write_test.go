package dynamicresources

import (
	"context"
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
)

// TestWriteEnds: a claim that can't be written is an error, also where its context ended; a conflict is none.
func TestWriteEnds(t *testing.T) {
	conflict := apierrors.NewConflict(resourcev1.Resource("resourceclaims"), "claim", errors.New("changed"))
	for name, c := range map[string]struct {
		answers []error // to updates; none to others
		want    error
	}{
		"written":                       {},
		"a conflict":                    {answers: []error{conflict}},
		"the end":                       {answers: []error{context.Canceled}, want: context.Canceled},
		"too late":                      {answers: []error{context.DeadlineExceeded}, want: context.DeadlineExceeded},
		"the end while it tries again":  {answers: []error{conflict, context.Canceled}, want: context.Canceled},
		"an answer that is of no avail": {answers: []error{errOutOfOrder}, want: errOutOfOrder},
	} {
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "claim"}}
		client := fake.NewClientset(claim)
		client.PrependReactor("update", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
			if len(c.answers) == 0 {
				return false, nil, nil
			}
			answer := c.answers[0]
			c.answers = c.answers[1:]
			if apierrors.IsConflict(answer) {
				return true, nil, answer
			}
			return true, nil, fmt.Errorf("put: %w", answer)
		})
		f := New(Config{Client: client, Clock: clock.RealClock{}})
		written, err := f.write(t.Context(), claim, &resourcev1.AllocationResult{}, &v1.Pod{})
		if !errors.Is(err, c.want) || (c.want == nil) != (written != nil) {
			t.Errorf("%s: wrote %v, error %v, want %v", name, written, err, c.want)
		}
	}
}

var errOutOfOrder = errors.New("out of order")
