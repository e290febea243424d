package checks

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestIsZero: text that should be a percentage but isn't counts as the number that it reads as, or as nothing.
func TestIsZero(t *testing.T) {
	text := func(s string) *intstr.IntOrString { return &intstr.IntOrString{Type: intstr.String, StrVal: s} }
	number := func(n int32) *intstr.IntOrString { return &intstr.IntOrString{IntVal: n} }
	for _, v := range []*intstr.IntOrString{nil, number(0), text("0%"), text(""), text("x"), text("0"), text("-5%"),
		text("00")} {
		if !IsZero(v) || IsSome(v) {
			t.Errorf("%v is something", v)
		}
	}
	for _, v := range []*intstr.IntOrString{number(1), number(-1), text("1%"), text("0644"), text("-1")} {
		if IsZero(v) || !IsSome(v) {
			t.Errorf("%v is nothing", v)
		}
	}
}
