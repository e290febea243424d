package flowcontrol

import (
	"slices"
	"strings"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	flowcontrolv1beta2 "k8s.io/api/flowcontrol/v1beta2"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// level is a limited priority level with the defaults, changed.
func level(changes ...func(l *flowcontrolv1.PriorityLevelConfiguration)) *flowcontrolv1.PriorityLevelConfiguration {
	l := &flowcontrolv1.PriorityLevelConfiguration{Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
		Type: flowcontrolv1.PriorityLevelEnablementLimited,
		Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{LimitResponse: flowcontrolv1.LimitResponse{
			Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: &flowcontrolv1.QueuingConfiguration{},
		}},
	}}
	l.Name = "l"
	DefaultLevel(l)
	for _, change := range changes {
		change(l)
	}
	return l
}

type limits = flowcontrolv1.LimitedPriorityLevelConfiguration

// limited changes the limits of a level.
func limited(change func(s *limits)) *flowcontrolv1.PriorityLevelConfiguration {
	return level(func(l *flowcontrolv1.PriorityLevelConfiguration) { change(l.Spec.Limited) })
}

// queued gives a level queues.
func queued(queues, hand, length int32) *flowcontrolv1.PriorityLevelConfiguration {
	return limited(func(s *limits) {
		*s.LimitResponse.Queuing = flowcontrolv1.QueuingConfiguration{Queues: queues, HandSize: hand,
			QueueLengthLimit: length}
	})
}

// exempt makes a level one that has no limits.
func exempt(name string, e *flowcontrolv1.ExemptPriorityLevelConfiguration) *flowcontrolv1.PriorityLevelConfiguration {
	l := &flowcontrolv1.PriorityLevelConfiguration{Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
		Type: flowcontrolv1.PriorityLevelEnablementExempt, Exempt: e}}
	l.Name = name
	return l
}

// sameErrors compares errors to how each of those wanted begins.
func sameErrors(t *testing.T, got field.ErrorList, want []string) {
	t.Helper()
	texts := make([]string, len(got))
	for i, err := range got {
		texts[i] = err.Error()
	}
	if !slices.EqualFunc(texts, want, strings.HasPrefix) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(texts, "\n"), strings.Join(want, "\n"))
	}
}

func TestValidateLevel(t *testing.T) {
	for _, test := range []struct {
		name  string
		level *flowcontrolv1.PriorityLevelConfiguration
		want  []string
	}{
		{"defaults", level(), nil},
		{"exempt", exempt("exempt", nil), nil},
		{"shares of exempt may be set", exempt("exempt", &flowcontrolv1.ExemptPriorityLevelConfiguration{
			NominalConcurrencyShares: ptr.To[int32](5), LendablePercent: ptr.To[int32](100)}), nil},
		{"no other is exempt", exempt("l", nil), []string{
			`spec.type: Invalid value: "Exempt": must be 'Exempt' if and only if`}},
		{"numbers of exempt", exempt("exempt", &flowcontrolv1.ExemptPriorityLevelConfiguration{
			NominalConcurrencyShares: ptr.To[int32](-1), LendablePercent: ptr.To[int32](101)}), []string{
			"spec.exempt.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer",
			"spec.exempt.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive"}},
		{"both forms, limited", level(func(l *flowcontrolv1.PriorityLevelConfiguration) {
			l.Spec.Exempt = &flowcontrolv1.ExemptPriorityLevelConfiguration{}
		}), []string{"spec.exempt: Forbidden: must be nil if the type is Limited"}},
		{"both forms, exempt", level(func(l *flowcontrolv1.PriorityLevelConfiguration) {
			l.Spec.Type = flowcontrolv1.PriorityLevelEnablementExempt
		}), []string{`spec.type: Invalid value: "Exempt"`,
			"spec.limited: Forbidden: must be nil if the type is not Limited"}},
		{"no limits", level(func(l *flowcontrolv1.PriorityLevelConfiguration) { l.Spec.Limited = nil }),
			[]string{"spec.limited: Required value: must not be empty when type is Limited"}},
		{"unknown type", level(func(l *flowcontrolv1.PriorityLevelConfiguration) { l.Spec.Type = "Some" }),
			[]string{`spec.type: Unsupported value: "Some": supported values: "Exempt", "Limited"`}},
		{"annotation of v1beta3", level(func(l *flowcontrolv1.PriorityLevelConfiguration) {
			l.Annotations = map[string]string{flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey: ""}
		}), []string{"metadata.annotations: Forbidden: annotation '" +
			flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey + "' is forbidden"}},
		{"catch-all stays", level(func(l *flowcontrolv1.PriorityLevelConfiguration) {
			l.Name = flowcontrolv1.PriorityLevelConfigurationNameCatchAll
		}), []string{"spec: Invalid value: "}},
	} {
		t.Run(test.name, func(t *testing.T) { sameErrors(t, ValidateLevel(test.level), test.want) })
	}
}

func TestValidateLimits(t *testing.T) {
	for _, test := range []struct {
		name  string
		level *flowcontrolv1.PriorityLevelConfiguration
		want  []string
	}{
		{"least", limited(func(s *limits) {
			s.NominalConcurrencyShares, s.LendablePercent, s.BorrowingLimitPercent = new(int32), new(int32), new(int32)
		}), nil},
		{"lends all", limited(func(s *limits) { s.LendablePercent = ptr.To[int32](100) }), nil},
		{"below zero", limited(func(s *limits) {
			s.NominalConcurrencyShares, s.LendablePercent, s.BorrowingLimitPercent =
				ptr.To[int32](-1), ptr.To[int32](-1), ptr.To[int32](-1)
		}), []string{"spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer",
			"spec.limited.lendablePercent: Invalid value: -1: must be between 0 and 100, inclusive",
			"spec.limited.borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer"}},
		{"lends more than all", limited(func(s *limits) { s.LendablePercent = ptr.To[int32](101) }),
			[]string{"spec.limited.lendablePercent: Invalid value: 101"}},
		{"rejects", limited(func(s *limits) {
			s.LimitResponse = flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject}
		}), nil},
		{"rejects and queues", limited(func(s *limits) {
			s.LimitResponse.Type = flowcontrolv1.LimitResponseTypeReject
		}), []string{"spec.limited.limitResponse.queuing: Forbidden: "}},
		{"no queues", limited(func(s *limits) { s.LimitResponse.Queuing = nil }),
			[]string{"spec.limited.limitResponse.queuing: Required value: "}},
		{"unknown response", limited(func(s *limits) { s.LimitResponse.Type = "Wait" }), []string{
			`spec.limited.limitResponse.type: Unsupported value: "Wait": supported values: "Queue", "Reject"`}},
		{"one queue", queued(1, 1, 1), nil},
		{"none at all", queued(0, 0, 0), []string{
			"spec.limited.limitResponse.queuing.queueLengthLimit: Invalid value: 0: must be positive",
			"spec.limited.limitResponse.queuing.queues: Invalid value: 0: must be positive",
			"spec.limited.limitResponse.queuing.handSize: Invalid value: 0: must be positive"}},
		{"most queues", queued(maxQueues, 1, 1), nil},
		{"too many queues", queued(maxQueues+1, 1, 1), []string{
			"spec.limited.limitResponse.queuing.queues: Invalid value: 10000001: must not be greater than 10000000"}},
		{"a hand of all", queued(4, 4, 1), nil},
		{"a hand of more", queued(4, 5, 1), []string{
			"spec.limited.limitResponse.queuing.handSize: Invalid value: 5: should not be greater than queues (4)"}},
		{"a hand that 60 bits can deal", queued(128, 8, 1), nil},
		{"a hand that they can't", queued(512, 8, 1), []string{
			"spec.limited.limitResponse.queuing.handSize: Invalid value: 8: required entropy bits of " +
				"deckSize 512 and handSize 8 should not be greater than 60"}},
	} {
		t.Run(test.name, func(t *testing.T) { sameErrors(t, ValidateLevel(test.level), test.want) })
	}
}

func TestValidateLevelStatus(t *testing.T) {
	conditions := []flowcontrolv1.PriorityLevelConfigurationCondition{{Type: "a"}, {Type: "b"}, {Type: "a"}, {}}
	sameErrors(t, ValidateLevelStatus(&flowcontrolv1.PriorityLevelConfigurationStatus{Conditions: conditions}),
		[]string{`status.conditions[2].type: Duplicate value: "a"`, "status.conditions[3].type: Required value"})
}

func TestDefaultLevel(t *testing.T) {
	given := level(func(l *flowcontrolv1.PriorityLevelConfiguration) {
		s := l.Spec.Limited
		s.NominalConcurrencyShares, s.LendablePercent = new(int32), ptr.To[int32](7)
		*s.LimitResponse.Queuing = flowcontrolv1.QueuingConfiguration{Queues: 2, HandSize: 1, QueueLengthLimit: 3}
	})
	kept := given.DeepCopy()
	if DefaultLevel(kept); !apiequality.Semantic.DeepEqual(kept, given) {
		t.Errorf("of what was given became %v", kept.Spec.Limited)
	}
	set := level().Spec.Limited
	if q := set.LimitResponse.Queuing; *set.NominalConcurrencyShares != 30 || *set.LendablePercent != 0 ||
		set.BorrowingLimitPercent != nil || q.Queues != 64 || q.HandSize != 8 || q.QueueLengthLimit != 50 {
		t.Errorf("defaults %v, %v", set, q)
	}
	none := exempt("exempt", &flowcontrolv1.ExemptPriorityLevelConfiguration{})
	DefaultLevel(none)
	if e := none.Spec.Exempt; e.NominalConcurrencyShares == nil || *e.NominalConcurrencyShares != 0 ||
		e.LendablePercent == nil || *e.LendablePercent != 0 {
		t.Errorf("defaults of exempt %v", e)
	}
}

// TestSharesOfFormerLevels: 0 shares are none that were named, unless the annotation of v1beta3 says that they were
// meant; it is gone then.
func TestSharesOfFormerLevels(t *testing.T) {
	const note = flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey
	for _, test := range []struct {
		name        string
		shares      int32
		annotations map[string]string
		want        *int32
	}{
		{"named", 5, nil, ptr.To[int32](5)},
		{"not named", 0, nil, nil},
		{"none meant", 0, map[string]string{note: "", "a": "b"}, new(int32)},
	} {
		old := &flowcontrolv1beta3.PriorityLevelConfiguration{}
		old.Annotations = test.annotations
		old.Spec.Limited = &flowcontrolv1beta3.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: test.shares}
		got := LevelFromV1beta3(old)
		if _, has := got.Annotations[note]; has || len(test.annotations) != 0 && got.Annotations["a"] != "b" ||
			!ptr.Equal(got.Spec.Limited.NominalConcurrencyShares, test.want) {
			t.Errorf("%s: %v of %v", test.name, got.Annotations, got.Spec.Limited)
		}
		if _, has := old.Annotations[note]; has != (test.annotations != nil) {
			t.Errorf("%s: the argument lost its annotation", test.name)
		}
	}
	old := &flowcontrolv1beta2.PriorityLevelConfiguration{}
	old.Spec.Limited = &flowcontrolv1beta2.LimitedPriorityLevelConfiguration{}
	if got := LevelFromV1beta2(old); got.Spec.Limited.NominalConcurrencyShares != nil {
		t.Errorf("v1beta2: %v", got.Spec.Limited)
	}
}
