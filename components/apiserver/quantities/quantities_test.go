package quantities

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func check(data string) []string {
	var out []string
	for _, err := range Check([]byte(data), func(bounded []byte) (any, error) {
		pod := &corev1.Pod{}
		return pod, json.Unmarshal(bounded, pod)
	}) {
		out = append(out, err.Error())
	}
	return out
}

func podOf(cpu string) string {
	return `{"metadata":{"annotations":{"a":"2e99999"}},"spec":{"containers":[{"resources":{"requests":{"cpu":` + cpu +
		`}}}]}}`
}

// Absurd quantities are found at once, with their path; text that only looks like one, and large ones, are none.
func TestCheck(t *testing.T) {
	for cpu, absurd := range map[string]bool{
		`"1e999999999"`: true, `"1e-999999999"`: true, `"-1E+99999999"`: true, `1e999999999`: true, `"1.5e1000"`: true,
		`"-2e-99999999"`: true, `"1.e99999"`: true,
		`"1e999"`: false, `"1e3"`: false, `"5"`: false, `"0e99999999"`: false, `"1Ei"`: false, `"1n"`: false,
	} {
		got := check(podOf(cpu))
		if len(got) > 0 != absurd {
			t.Errorf("%s: %v", cpu, got)
		}
		if absurd && !strings.HasPrefix(got[0], "spec.containers[0].resources.requests[cpu]: Invalid value") {
			t.Errorf("%s: %v", cpu, got)
		}
	}
	if got := check(`{"spec":`); got != nil {
		t.Errorf("what can't be decoded: %v", got)
	}
}

// A number whose exponent is escaped doesn't escape.
func TestUnescaped(t *testing.T) {
	data := []byte(podOf(`"1\u0065999999999"`))
	if !Suspicious(data) {
		t.Error("escaped characters are not suspicious")
	}
	if got := check(string(Unescaped(data))); len(got) != 1 {
		t.Errorf("got %v", got)
	}
	if Suspicious([]byte(`{"a":"line\nline \"\\ \u00e9"}`)) {
		t.Error("common escapes are suspicious")
	}
}

// Whatever the bytes, what is left of exponents is cheap to parse.
func FuzzBound(f *testing.F) {
	for _, s := range []string{"1e99999", "e", "1e", "1.e-99999", "1ee99999", "1e1e99999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		bounded, _ := bound([]byte(s))
		if len(bounded) != len(s) {
			t.Fatalf("%q became %q", s, bounded)
		}
		if q, err := resource.ParseQuantity(string(bounded)); err == nil && len(s) < 100 {
			_ = q.Cmp(smallest)
		}
	})
}
