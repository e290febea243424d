package proxy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Upstream's feature gates of pages; both are on unless they are switched off.
const (
	statuszGate = "ComponentStatusz"
	flagzGate   = "ComponentFlagz"
)

func switchable() []string { return []string{flagzGate, statuszGate} }

// fixedGates are upstream's other feature gates that concern kube-proxy, as this one behaves.
func fixedGates() map[string]bool {
	return map[string]bool{
		"ContextualLogging": true, "LoggingAlphaOptions": false, "LoggingBetaOptions": true,
		"MultiCIDRServiceAllocator": true, "NFTablesProxyMode": true, "PreferSameTrafficDistribution": true,
		"ServiceTrafficDistribution": true, "TopologyAwareHints": true,
	}
}

// checkGates refuses what can't be honoured.
func checkGates(gates map[string]bool) error {
	var errs []error
	fixed := fixedGates()
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		if slices.Contains(switchable(), name) {
			continue
		}
		is, known := fixed[name]
		switch {
		case !known:
			errs = append(errs, fmt.Errorf("featureGates: %s is no feature of this kube-proxy", name))
		case gates[name] != is:
			errs = append(errs, fmt.Errorf("featureGates: %s is always %v", name, is))
		}
	}
	return errors.Join(errs...)
}

// enabled returns whether a configurable gate is on.
func (c *Config) enabled(gate string) bool {
	on, set := c.FeatureGates[gate]
	return on || !set
}
