package horizontalpodautoscaler

import (
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
)

// Options are the settings of all autoscalers. The flags of kube-controller-manager that they come from are documented
// at https://kubernetes.io/docs/reference/command-line-tools-reference/kube-controller-manager/.
type Options struct {
	// SyncPeriod is the time between two decisions about the same autoscaler.
	SyncPeriod time.Duration
	// DownscaleStabilization is how long a recommendation keeps an autoscaler from scaling below it, unless the
	// autoscaler has a window of its own.
	DownscaleStabilization time.Duration
	// Tolerance is the relative deviation from the target that is not acted on, unless the autoscaler has its own.
	Tolerance float64
	// CPUInitializationPeriod is how long after the start of a pod its samples of CPU usage may be skipped.
	CPUInitializationPeriod time.Duration
	// InitialReadinessDelay is how long after the start of a pod changes of readiness count as its initial ones.
	InitialReadinessDelay time.Duration
	// ScaleToZero is the feature gate HPAScaleToZero.
	ScaleToZero bool
	// IgnoreOwnTolerance is true when the feature gate HPAConfigurableTolerance is off.
	IgnoreOwnTolerance bool
}

// tolerance is by how much the ratio of usage to target may be below (down) or above (up) 1 without consequence.
type tolerance struct{ down, up float64 }

func (t tolerance) covers(ratio float64) bool { return 1-t.down <= ratio && ratio <= 1+t.up }

// tolerance returns what applies to an autoscaler (KEP-4951).
func (o Options) tolerance(hpa *autoscaling.HorizontalPodAutoscaler) tolerance {
	t := tolerance{o.Tolerance, o.Tolerance}
	behavior := hpa.Spec.Behavior
	if behavior == nil || o.IgnoreOwnTolerance {
		return t
	}
	if down := behavior.ScaleDown; down != nil && down.Tolerance != nil {
		t.down = down.Tolerance.AsApproximateFloat64()
	}
	if up := behavior.ScaleUp; up != nil && up.Tolerance != nil {
		t.up = up.Tolerance.AsApproximateFloat64()
	}
	return t
}
