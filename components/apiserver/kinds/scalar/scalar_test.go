package scalar

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestDecode(t *testing.T) {
	two := int32(2)
	for _, c := range []struct {
		into, given, want any // want is nil for what can't be decoded
	}{
		{"", "a", "a"},
		{corev1.PodPhase(""), "Running", corev1.PodRunning},
		{"", int64(1), nil},
		{"", true, nil},
		{"", nil, nil},
		{"", map[string]any{}, nil},
		{false, true, true},
		{false, "true", nil},
		{int32(0), int64(1), int32(1)},
		{int32(0), int64(1 << 40), nil},
		{int32(0), 1.5, nil},
		{(*int32)(nil), int64(2), &two},
		{[]byte(nil), "YQ==", []byte("a")},
		{[]byte(nil), "?", nil},
		{[]string(nil), "a", nil},
		{intstr.IntOrString{}, "80%", intstr.FromString("80%")},
		{intstr.IntOrString{}, int64(80), intstr.FromInt32(80)},
		{intstr.IntOrString{}, true, nil},
		{resource.Quantity{}, "1Gi", resource.MustParse("1Gi")},
		{resource.Quantity{}, "much", nil},
		{metav1.Time{}, "yesterday", nil},
	} {
		into := reflect.New(reflect.TypeOf(c.into)).Elem()
		ok := Decode(into, c.given)
		if ok != (c.want != nil) || ok && !reflect.DeepEqual(into.Interface(), c.want) {
			t.Errorf("%v for a %T: got %v, %t", c.given, c.into, into, ok)
		}
	}
}
