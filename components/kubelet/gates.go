package kubelet

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// The feature gates that can be set. All are off by default in 1.36.
const (
	// trustBundles lets volumes project ClusterTrustBundles.
	trustBundles = "ClusterTrustBundleProjection"
	// stopSignals lets containers name the signal that stops them, and tells in their status which one does.
	stopSignals = "ContainerStopSignals"
	// podCertificates lets volumes project certificates that are requested for the pod.
	podCertificates = "PodCertificateRequest"
)

func switchable() []string { return []string{trustBundles, stopSignals, podCertificates} }

func (c *Config) addGateFlags(fs *pflag.FlagSet) {
	fs.Var(cliflag.NewMapStringBool(&c.FeatureGates), "feature-gates",
		"Features, as NAME=true|false,...; those that can be set: "+strings.Join(switchable(), ", ")+
			". Example: --feature-gates=PodCertificateRequest=true")
}

func (c *Config) gateSettings(f *kubeletconfig.KubeletConfiguration) []setting {
	return []setting{{"featureGates", "", func() { // of what is in both, the flag wins
		gates := maps.Clone(f.FeatureGates)
		if gates == nil {
			return
		}
		maps.Copy(gates, c.FeatureGates)
		c.FeatureGates = gates
	}}}
}

// validateGates refuses gates that this kubelet has no switch for.
func (c *Config) validateGates() error {
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(c.FeatureGates)) {
		if !slices.Contains(switchable(), name) {
			wrong = append(wrong, fmt.Errorf("--feature-gates: %s can't be set; only %s can", name,
				strings.Join(switchable(), ", ")))
		}
	}
	return errors.Join(wrong...)
}
