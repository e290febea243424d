package handlers

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestCopiesAreBounded: a JSON patch that doubles a list with each operation ends in an error when copies are more than
// a request may carry.
func TestCopiesAreBounded(t *testing.T) {
	limitCopies()
	patch := "[" + strings.Repeat(`{"op":"copy","from":"/a","path":"/a/-"},`, 13) +
		`{"op":"copy","from":"/a","path":"/a/-"}]`
	p := patcher{kind: types.JSONPatchType, body: []byte(patch),
		options: &metav1.PatchOptions{FieldValidation: metav1.FieldValidationIgnore}}
	_, _, err := p.patchText([]byte(`{"a":["` + strings.Repeat("x", 1000) + `"]}`))
	if status, ok := err.(apierrors.APIStatus); !ok || status.Status().Code != 422 {
		t.Errorf("got %v", err)
	}
}
