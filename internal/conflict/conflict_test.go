package conflict

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
)

func TestRetry(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "things"}, "a", errors.New("changed"))
	canceled, late := fmt.Errorf("put: %w", context.Canceled), fmt.Errorf("put: %w", context.DeadlineExceeded)
	for name, test := range map[string]struct {
		answers []error
		want    error
	}{
		"written":                      {[]error{nil}, nil},
		"written after a conflict":     {[]error{conflict, nil}, nil},
		"another error":                {[]error{errors.ErrUnsupported}, errors.ErrUnsupported},
		"no end of conflicts":          {[]error{conflict, conflict, conflict}, conflict},
		"the end":                      {[]error{canceled}, context.Canceled},
		"too late":                     {[]error{late}, context.DeadlineExceeded},
		"the end while it tries again": {[]error{conflict, canceled}, context.Canceled},
	} {
		attempts := 0
		err := Retry(wait.Backoff{Steps: 3}, func() error {
			attempts++
			return test.answers[attempts-1]
		})
		if !errors.Is(err, test.want) || attempts != len(test.answers) {
			t.Errorf("%s: %v after %d attempts, want %v after %d", name, err, attempts, test.want, len(test.answers))
		}
	}
}
