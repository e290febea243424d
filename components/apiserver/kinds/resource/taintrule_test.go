package resource

import (
	"reflect"
	"strings"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/kinds/twin"
)

func ruleOf(effect string) *taintRule {
	return &taintRule{Spec: resourcev1alpha3.DeviceTaintRuleSpec{
		Taint: resourcev1alpha3.DeviceTaint{Key: "k", Effect: resourcev1alpha3.DeviceTaintEffect(effect)}}}
}

func TestTaintsAreAlike(t *testing.T) {
	if !twin.Alike(reflect.TypeFor[resourcev1.DeviceTaint](), reflect.TypeFor[resourcev1alpha3.DeviceTaint]()) {
		t.Error("taints of v1alpha3 are laid out otherwise")
	}
}

// TestStampEffect: the time is that of the effect, unless the writer sets another.
func TestStampEffect(t *testing.T) {
	before, now := time.Unix(1000, 0), time.Unix(2000, 5)
	old := ruleOf("NoSchedule")
	StampRule(old, before)
	for name, test := range map[string]struct {
		effect string
		told   time.Time
		want   int64
	}{
		"same effect":               {"NoSchedule", before, 1000},
		"other effect":              {"NoExecute", before, 2000},
		"other effect, own time":    {"NoExecute", time.Unix(1500, 0), 1500},
		"same effect, another time": {"NoSchedule", time.Unix(1500, 0), 1500},
	} {
		new := ruleOf(test.effect)
		new.Spec.Taint.TimeAdded = &metav1.Time{Time: test.told}
		if StampEffect(new, old, now); new.Spec.Taint.TimeAdded.Unix() != test.want ||
			new.Spec.Taint.TimeAdded.Nanosecond() != 0 {
			t.Errorf("%s: %v", name, new.Spec.Taint.TimeAdded)
		}
	}
}

func TestValidateRule(t *testing.T) {
	bad := ruleOf("Maybe")
	bad.Spec.Taint.Value = "a b"
	empty := ""
	bad.Spec.DeviceSelector = &resourcev1alpha3.DeviceTaintSelector{Driver: &empty, Pool: &empty, Device: &empty}
	text := ValidateRule(bad).ToAggregate().Error()
	for _, at := range []string{"spec.deviceSelector.driver", "spec.deviceSelector.pool", "spec.deviceSelector.device",
		"spec.taint.value", "spec.taint.effect"} {
		if !strings.Contains(text, at) {
			t.Errorf("nothing is said of %s: %s", at, text)
		}
	}
	if errs := ValidateRule(ruleOf("None")); len(errs) > 0 {
		t.Error(errs)
	}
	if errs := ValidateRuleUpdate(ruleOf("Maybe"), ruleOf("Maybe")); len(errs) > 0 {
		t.Errorf("an effect that stays: %v", errs)
	}
	many := ruleOf("None")
	many.Status.Conditions = make([]metav1.Condition, 9)
	if errs := ValidateRuleStatus(many, nil); !strings.Contains(errs.ToAggregate().Error(),
		"must have at most 8 items") {
		t.Error(errs)
	}
}
