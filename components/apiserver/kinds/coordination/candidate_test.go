package coordination

import (
	"strings"
	"testing"

	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
)

func TestValidateCandidate(t *testing.T) {
	good := coordinationv1beta1.LeaseCandidateSpec{LeaseName: "l", BinaryVersion: "1.36.0", EmulationVersion: "1.35.0",
		Strategy: "OldestEmulationVersion"}
	for name, test := range map[string]struct {
		change func(s *coordinationv1beta1.LeaseCandidateSpec)
		want   string // what the error says; "" means there is none
	}{
		"good": {func(*coordinationv1beta1.LeaseCandidateSpec) {}, ""},
		"no lease": {func(s *coordinationv1beta1.LeaseCandidateSpec) { s.LeaseName = "" },
			"spec.leaseName: Required value"},
		"no binary": {func(s *coordinationv1beta1.LeaseCandidateSpec) { s.BinaryVersion = "" },
			"spec.binaryVersion: Required value"},
		"binary": {func(s *coordinationv1beta1.LeaseCandidateSpec) { s.BinaryVersion = "x" },
			"must be a valid semantic version"},
		"emulates what's next": {func(s *coordinationv1beta1.LeaseCandidateSpec) { s.EmulationVersion = "1.37.0" },
			"must be greater than or equal to `emulationVersion`"},
		"no emulation": {func(s *coordinationv1beta1.LeaseCandidateSpec) { s.EmulationVersion = "" },
			"must be specified when `strategy` is 'OldestEmulationVersion'"},
		"no strategy": {func(s *coordinationv1beta1.LeaseCandidateSpec) { s.Strategy = "" },
			"spec.strategy: Required value"},
		"strategy": {func(s *coordinationv1beta1.LeaseCandidateSpec) { s.Strategy = "Best" },
			`spec.strategy.strategy: Unsupported value: "Best"`},
		"somebody's strategy": {func(s *coordinationv1beta1.LeaseCandidateSpec) {
			s.Strategy, s.EmulationVersion = "example.com/best", ""
		}, ""},
		"nobody's strategy": {func(s *coordinationv1beta1.LeaseCandidateSpec) { s.Strategy = "a/b/c" },
			"must consist of alphanumeric characters"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &coordinationv1beta1.LeaseCandidate{Spec: good}
			test.change(&c.Spec)
			errs := ValidateCandidate(c)
			if (len(errs) == 0) != (test.want == "") ||
				test.want != "" && !strings.Contains(errs.ToAggregate().Error(), test.want) {
				t.Errorf("%v, want %q", errs, test.want)
			}
		})
	}
	was, is := &coordinationv1beta1.LeaseCandidate{Spec: good}, &coordinationv1beta1.LeaseCandidate{Spec: good}
	if is.Spec.LeaseName = "other"; len(ValidateCandidateUpdate(is, was)) != 1 {
		t.Error("the lease may change")
	}
	if len(ValidCandidateName("a_b", false)) > 0 || len(ValidCandidateName("..", false)) == 0 {
		t.Error("names")
	}
}
