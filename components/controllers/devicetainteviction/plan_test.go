package devicetainteviction

import (
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const execute = resourcev1.DeviceTaintEffectNoExecute

var added = metav1.NewTime(time.Unix(1000, 0))

func tainted(key string, effect resourcev1.DeviceTaintEffect, rule types.UID) taint {
	return taint{rule: rule, DeviceTaint: resourcev1.DeviceTaint{Key: key, Effect: effect, TimeAdded: &added}}
}

func tolerates(key string, seconds *int64) resourcev1.DeviceToleration {
	return resourcev1.DeviceToleration{Key: key, Operator: resourcev1.DeviceTolerationOpExists, TolerationSeconds: seconds}
}

// claimOf has a device of pool p for each list of tolerations: d0, d1, ...
func claimOf(tolerations ...[]resourcev1.DeviceToleration) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{}
	claim.Status.Allocation = &resourcev1.AllocationResult{}
	for i, of := range tolerations {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
			resourcev1.DeviceRequestAllocationResult{Driver: "driver", Pool: "p", Device: "d" + string(rune('0'+i)),
				Tolerations: of})
	}
	return claim
}

func TestEviction(t *testing.T) {
	type list = []resourcev1.DeviceToleration
	for name, c := range map[string]struct {
		taints      map[string][]taint
		tolerations []list
		leave       bool
		after       time.Duration
		rules       []types.UID
	}{
		"no taints": {nil, []list{nil}, false, 0, nil},
		"another":   {map[string][]taint{"other": {tainted("a", execute, "")}}, []list{nil}, false, 0, nil},
		"not scheduled": {map[string][]taint{"d0": {tainted("a", resourcev1.DeviceTaintEffectNoSchedule, "")}}, []list{nil},
			false, 0, nil},
		"without effect": {map[string][]taint{"d0": {tainted("a", resourcev1.DeviceTaintEffectNone, "r")}}, []list{nil},
			false, 0, nil},
		"at once": {map[string][]taint{"d0": {tainted("a", execute, "r")}}, []list{nil}, true, 0, []types.UID{"r"}},
		"for ever": {map[string][]taint{"d0": {tainted("a", execute, "")}}, []list{{tolerates("a", nil)}}, false, 0,
			nil},
		"any key": {map[string][]taint{"d0": {tainted("a", execute, "")}}, []list{{tolerates("", nil)}}, false, 0, nil},
		"for a while": {map[string][]taint{"d0": {tainted("a", execute, "")}}, []list{{tolerates("a", ptr.To[int64](60))}},
			true, time.Minute, nil},
		"the shorter": {map[string][]taint{"d0": {tainted("a", execute, "")}},
			[]list{{tolerates("a", ptr.To[int64](60)), tolerates("", ptr.To[int64](5))}}, true, 5 * time.Second, nil},
		"the earlier device": {map[string][]taint{"d0": {tainted("a", execute, "r")}, "d1": {tainted("b", execute, "s")}},
			[]list{{tolerates("a", ptr.To[int64](60))}, {tolerates("b", ptr.To[int64](7))}}, true, 7 * time.Second,
			[]types.UID{"r", "s"}},
		"one of two": {map[string][]taint{"d0": {tainted("a", execute, "r"), tainted("b", execute, "s")}},
			[]list{{tolerates("a", nil)}}, true, 0, []types.UID{"s"}},
	} {
		got := evictionOf(claimOf(c.tolerations...), func(driver, pool, device string) []taint {
			if driver != "driver" || pool != "p" {
				t.Errorf("asked about %s/%s", driver, pool)
			}
			return c.taints[device]
		})
		if got.leave != c.leave || c.leave && got.at.Sub(added.Time) != c.after || len(got.rules) != len(c.rules) ||
			len(c.rules) > 0 && !got.rules.HasAll(c.rules...) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := evictionOf(&resourcev1.ResourceClaim{}, nil); got.leave {
		t.Errorf("without allocation: %+v", got)
	}
}

func rule(effect resourcev1beta2.DeviceTaintEffect,
	selector *resourcev1beta2.DeviceTaintSelector) *resourcev1beta2.DeviceTaintRule {
	return &resourcev1beta2.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "r", Generation: 3},
		Spec: resourcev1beta2.DeviceTaintRuleSpec{DeviceSelector: selector,
			Taint: resourcev1beta2.DeviceTaint{Key: "k", Effect: effect, TimeAdded: &added}}}
}

func TestMatches(t *testing.T) {
	type selector = resourcev1beta2.DeviceTaintSelector
	for name, c := range map[string]struct {
		selector *selector
		want     bool
	}{
		"none": {nil, false}, "all": {&selector{}, true}, "driver": {&selector{Driver: ptr.To("d")}, true},
		"other driver": {&selector{Driver: ptr.To("x")}, false},
		"one device":   {&selector{Driver: ptr.To("d"), Pool: ptr.To("p"), Device: ptr.To("dev")}, true},
		"other pool":   {&selector{Driver: ptr.To("d"), Pool: ptr.To("x"), Device: ptr.To("dev")}, false},
		"other device": {&selector{Device: ptr.To("x")}, false},
	} {
		if got := matches(rule("NoExecute", c.selector), "d", "p", "dev"); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestCondition(t *testing.T) {
	for name, c := range map[string]struct {
		effect  resourcev1beta2.DeviceTaintEffect
		n       counts
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		"nothing to do": {"NoExecute", counts{}, "False", "NotStarted", ""},
		"one": {"NoExecute", counts{pods: 1, namespaces: 1}, "True", "PodsPendingEviction",
			"1 pod needs to be evicted in 1 namespace."},
		"some": {"NoExecute", counts{pods: 3, namespaces: 2, evicted: 1}, "True", "PodsPendingEviction",
			"3 pods need to be evicted in 2 different namespaces. 1 pod evicted since starting the controller."},
		"done": {"NoExecute", counts{evicted: 2}, "False", "Completed", "2 pods evicted since starting the controller."},
		"only asked": {"None", counts{pods: 1, namespaces: 1, published: 2, assigned: 1}, "False", "NoEffect",
			"2 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if the effect " +
				"was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."},
		"another effect": {"NoSchedule", counts{}, "False", "OtherEffect", "Eviction only happens for the NoExecute effect."},
	} {
		got := conditionOf(rule(c.effect, nil), c.n)
		if got.Type != "EvictionInProgress" || got.Status != c.status || got.Reason != c.reason || got.Message != c.message ||
			got.ObservedGeneration != 3 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
