package core

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestRatioOfLimits: that of the greatest to the smallest value may be asked for exactly, of parts and of what has no
// parts any more.
func TestRatioOfLimits(t *testing.T) {
	for _, c := range []struct{ max, min, ratio, want string }{
		{"300m", "100m", "3", ""},
		{"600m", "200m", "3", ""},
		{"300m", "100m", "3001m",
			`spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "3001m": ratio 3001m is greater than max/min = 3.000000`},
		{"1", "1", "1", ""},
		{"9E", "3E", "3", ""},
		{"9E", "3E", "4",
			`spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "4": ratio 4 is greater than max/min = 3.000000`},
		// where one has too many thousandths all are rounded up
		{"9E", "300m", "9200P",
			`spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "9200P": ratio 9200P is greater than max/min = 9000000000000000000.000000`},
		{"1", "0", "9", ""},
		{"1", "1", "900m", `spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "900m": ratio 900m is less than 1`},
	} {
		of := func(amount string) corev1.ResourceList {
			return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
		}
		errs := ValidateLimitRange(&corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypeContainer, Max: of(c.max), Min: of(c.min), MaxLimitRequestRatio: of(c.ratio)}}}})
		if got := errs.ToAggregate(); c.want == "" && got != nil ||
			c.want != "" && (got == nil || got.Error() != c.want) {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestShownLimitTypes: as JSON has them.
func TestShownLimitTypes(t *testing.T) {
	errs := limitTypeName("a<b", field.NewPath("type"))
	if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), `type: Invalid value: "a\u003cb": `) {
		t.Error(errs)
	}
}
