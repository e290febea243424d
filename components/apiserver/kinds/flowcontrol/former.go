package flowcontrol

import (
	"maps"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	flowcontrolv1beta2 "k8s.io/api/flowcontrol/v1beta2"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"

	"quintet.dev/quintet/components/apiserver/kinds/twin"
)

// LevelFromV1beta2 converts a priority level of v1beta2, and of v1beta1, where 0 shares are none that were named.
func LevelFromV1beta2(l *flowcontrolv1beta2.PriorityLevelConfiguration) *flowcontrolv1.PriorityLevelConfiguration {
	out := &flowcontrolv1.PriorityLevelConfiguration{
		ObjectMeta: l.ObjectMeta, Status: *twin.Of[flowcontrolv1.PriorityLevelConfigurationStatus](&l.Status),
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type:   flowcontrolv1.PriorityLevelEnablement(l.Spec.Type),
			Exempt: twin.Of[flowcontrolv1.ExemptPriorityLevelConfiguration](l.Spec.Exempt),
		},
	}
	if limited := l.Spec.Limited; limited != nil {
		out.Spec.Limited = &flowcontrolv1.LimitedPriorityLevelConfiguration{
			LimitResponse:   *twin.Of[flowcontrolv1.LimitResponse](&limited.LimitResponse),
			LendablePercent: limited.LendablePercent, BorrowingLimitPercent: limited.BorrowingLimitPercent,
		}
		if limited.AssuredConcurrencyShares != 0 {
			out.Spec.Limited.NominalConcurrencyShares = &limited.AssuredConcurrencyShares
		}
	}
	return out
}

// LevelFromV1beta3 converts a priority level, of which an annotation tells whether 0 shares are what was meant.
func LevelFromV1beta3(l *flowcontrolv1beta3.PriorityLevelConfiguration) *flowcontrolv1.PriorityLevelConfiguration {
	older := &flowcontrolv1beta2.PriorityLevelConfiguration{
		ObjectMeta: l.ObjectMeta, Status: *twin.Of[flowcontrolv1beta2.PriorityLevelConfigurationStatus](&l.Status),
		Spec: flowcontrolv1beta2.PriorityLevelConfigurationSpec{
			Type:   flowcontrolv1beta2.PriorityLevelEnablement(l.Spec.Type),
			Exempt: twin.Of[flowcontrolv1beta2.ExemptPriorityLevelConfiguration](l.Spec.Exempt),
		},
	}
	limited := l.Spec.Limited
	if limited != nil {
		older.Spec.Limited = &flowcontrolv1beta2.LimitedPriorityLevelConfiguration{
			AssuredConcurrencyShares: limited.NominalConcurrencyShares,
			LimitResponse:            *twin.Of[flowcontrolv1beta2.LimitResponse](&limited.LimitResponse),
			LendablePercent:          limited.LendablePercent, BorrowingLimitPercent: limited.BorrowingLimitPercent,
		}
	}
	out := LevelFromV1beta2(older)
	if _, meant := l.Annotations[flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey]; meant {
		out.Annotations = maps.Clone(l.Annotations)
		delete(out.Annotations, flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey)
		if limited != nil {
			out.Spec.Limited.NominalConcurrencyShares = &limited.NominalConcurrencyShares
		}
	}
	return out
}
