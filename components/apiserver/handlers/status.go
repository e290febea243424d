package handlers

import (
	"net/http"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var statusKind = metav1.Unversioned.WithKind("Status")

// success answers with a Status.
func (o *responder) success(code int, details *metav1.StatusDetails) error {
	status := &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusSuccess, Details: details,
	}
	if details == nil {
		status.Code = int32(code)
	}
	return o.plain(code, status, statusKind)
}

func statusCode(s *metav1.Status) int32 {
	if s.Code == 0 {
		return http.StatusOK
	}
	return s.Code
}

// isNil reports whether an interface holds nothing, or a nil pointer.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}
