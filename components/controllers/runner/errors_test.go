package runner_test

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/controllers/runner"
)

func TestIgnoreGone(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p")
	other := errors.New("other")
	if runner.IgnoreGone(nil) != nil || runner.IgnoreGone(gone) != nil || runner.IgnoreGone(other) != other {
		t.Error("only what is gone is to be ignored")
	}
}
