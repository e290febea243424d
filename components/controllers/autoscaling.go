package controllers

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/scale"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	"k8s.io/metrics/pkg/client/custom_metrics"
	"k8s.io/metrics/pkg/client/external_metrics"

	"quintet.dev/quintet/components/controllers/horizontalpodautoscaler"
	"quintet.dev/quintet/components/controllers/runner"
)

// AutoscalerConfig is what the controller of horizontal pod autoscalers is made from.
type AutoscalerConfig struct {
	// SyncPeriod is the time between two decisions about the same autoscaler.
	SyncPeriod time.Duration
	// DownscaleStabilization is how long a high recommendation keeps a target from being scaled down.
	DownscaleStabilization time.Duration
	// Tolerance is the relative deviation from the target that is not acted on.
	Tolerance float64
	// CPUInitializationPeriod is how long after the start of a pod its samples of CPU usage may be skipped.
	CPUInitializationPeriod time.Duration
	// InitialReadinessDelay is how long after the start of a pod changes of readiness count as its initial ones.
	InitialReadinessDelay time.Duration
	// ConcurrentSyncs is how many autoscalers are decided on at once.
	ConcurrentSyncs int
}

func defaultAutoscaler() AutoscalerConfig {
	return AutoscalerConfig{
		SyncPeriod: 15 * time.Second, DownscaleStabilization: 5 * time.Minute, Tolerance: 0.1,
		CPUInitializationPeriod: 5 * time.Minute, InitialReadinessDelay: 30 * time.Second, ConcurrentSyncs: 5,
	}
}

// AddFlags adds upstream's flags of this controller.
func (c *AutoscalerConfig) AddFlags(fs *pflag.FlagSet) {
	const prefix = "horizontal-pod-autoscaler-"
	fs.DurationVar(&c.SyncPeriod, prefix+"sync-period", c.SyncPeriod,
		"time between two decisions about the same autoscaler")
	fs.DurationVar(&c.DownscaleStabilization, prefix+"downscale-stabilization", c.DownscaleStabilization,
		"how long a high recommendation keeps a target from being scaled down")
	fs.Float64Var(&c.Tolerance, prefix+"tolerance", c.Tolerance,
		"relative deviation from the target that is not acted on")
	fs.DurationVar(&c.CPUInitializationPeriod, prefix+"cpu-initialization-period", c.CPUInitializationPeriod,
		"how long after the start of a pod its samples of CPU usage may be skipped")
	fs.DurationVar(&c.InitialReadinessDelay, prefix+"initial-readiness-delay", c.InitialReadinessDelay,
		"how long after the start of a pod changes of readiness count as its initial ones")
	fs.IntVar(&c.ConcurrentSyncs, "concurrent-horizontal-pod-autoscaler-syncs", c.ConcurrentSyncs,
		"autoscalers decided on at once")
}

func (c *AutoscalerConfig) validate() error {
	var errs []error
	if c.SyncPeriod <= 0 {
		errs = append(errs, fmt.Errorf("--horizontal-pod-autoscaler-sync-period %v must be longer than nothing",
			c.SyncPeriod))
	}
	if c.Tolerance < 0 {
		errs = append(errs, fmt.Errorf("--horizontal-pod-autoscaler-tolerance %v must not be negative", c.Tolerance))
	}
	if c.ConcurrentSyncs < 1 {
		errs = append(errs, fmt.Errorf("concurrent-horizontal-pod-autoscaler-syncs must be greater than 0, but got %d",
			c.ConcurrentSyncs))
	}
	return errors.Join(errs...)
}

// ofAutoscaler tells the settings of the controller of autoscalers.
func (c *AutoscalerConfig) ofAutoscaler() section {
	return section{"HPAController": section{
		"ConcurrentHorizontalPodAutoscalerSyncs":              c.ConcurrentSyncs,
		"HorizontalPodAutoscalerSyncPeriod":                   seconds(c.SyncPeriod),
		"HorizontalPodAutoscalerDownscaleStabilizationWindow": seconds(c.DownscaleStabilization),
		"HorizontalPodAutoscalerTolerance":                    c.Tolerance,
		"HorizontalPodAutoscalerCPUInitializationPeriod":      seconds(c.CPUInitializationPeriod),
		"HorizontalPodAutoscalerInitialReadinessDelay":        seconds(c.InitialReadinessDelay),
	}}
}

func makeAutoscaler(h *host, env runner.Env) (runner.Controller, error) {
	config := h.clients.config("horizontal-pod-autoscaler")
	resources, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	mapper := newMapper(resources, env.Clock)
	scales, err := scale.NewForConfig(config, mapper, dynamic.LegacyAPIPathResolverFunc,
		scale.NewDiscoveryScaleKindResolver(resources))
	if err != nil {
		return nil, err
	}
	usage, err := resourceclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	outside, err := external_metrics.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	versions := custom_metrics.NewAvailableAPIsGetter(resources)
	c := &h.config.Autoscaler
	return horizontalpodautoscaler.New(env, horizontalpodautoscaler.Sources{
		Scales: scales, Mapper: mapper,
		Metrics: &horizontalpodautoscaler.RESTMetrics{PodUsage: usage, Outside: outside, Versions: versions,
			Custom: custom_metrics.NewForConfig(config, mapper, versions)},
	}, horizontalpodautoscaler.Options{
		SyncPeriod: c.SyncPeriod, DownscaleStabilization: c.DownscaleStabilization, Tolerance: c.Tolerance,
		CPUInitializationPeriod: c.CPUInitializationPeriod, InitialReadinessDelay: c.InitialReadinessDelay,
		ScaleToZero: h.config.on(scaleToZero), IgnoreOwnTolerance: !h.config.on(configurableTolerance),
	})
}
