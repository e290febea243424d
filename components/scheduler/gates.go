package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/component-base/featuregate"
	"k8s.io/dynamic-resource-allocation/structured"

	"quintet.dev/quintet/components/scheduler/plugins/dynamicresources"
	"quintet.dev/quintet/internal/release"
)

// featureGates are the values of --feature-gates that were given.
type featureGates map[string]bool

// gateDefaults are the feature gates of upstream's scheduler that have a meaning here, with their defaults. Those of
// switchable can be set; of the others, the behaviour is always that of the default.
func gateDefaults() map[string]bool {
	defaults := map[string]bool{
		"DRAAdminAccess": true, "DRANodeAllocatableResources": false, "DRAWorkloadResourceClaims": false,
		"DynamicResourceAllocation": true, "GangScheduling": false,
		"GenericWorkload": false, "InPlacePodVerticalScaling": true, "MatchLabelKeysInPodAffinity": true,
		"MatchLabelKeysInPodTopologySpread": true, "NodeDeclaredFeatures": true,
		"NodeInclusionPolicyInPodTopologySpread": true, "NominatedNodeNameForExpectation": true,
		"OpportunisticBatching": false, "PodLevelResources": true, "SchedulerAsyncPreemption": true,
		"SchedulerPopFromBackoffQ": true, "SchedulerQueueingHints": true, "StorageCapacityScoring": false,
		"TaintTolerationComparisonOperators": false, "VolumeAttributesClass": true, "VolumeLimitScaling": false,
	}
	maps.Copy(defaults, switchable())
	return defaults
}

// The feature gates of dynamic resource allocation that can be set.
const (
	gateConsumableCapacity = "DRAConsumableCapacity"
	gateBindingConditions  = "DRADeviceBindingConditions"
	gateTaintRules         = "DRADeviceTaintRules"
	gateTaints             = "DRADeviceTaints"
	gateExtendedResource   = "DRAExtendedResource"
	gateListAttributes     = "DRAListTypeAttributes"
	gatePartitionable      = "DRAPartitionableDevices"
	gatePrioritizedList    = "DRAPrioritizedList"
	gateClaimDeviceStatus  = "DRAResourceClaimDeviceStatus"
	gateFilterTimeout      = "DRASchedulerFilterTimeout"
)

// switchable are the gates that can be set, with their defaults.
func switchable() map[string]bool {
	return map[string]bool{
		gateConsumableCapacity: true, gateBindingConditions: true, gateTaintRules: false, gateTaints: true,
		gateExtendedResource: true, gateListAttributes: false, gatePartitionable: true, gatePrioritizedList: true,
		gateClaimDeviceStatus: true, gateFilterTimeout: true,
	}
}

// on tells whether a gate is on.
func (g featureGates) on(name string) bool {
	if given, ok := g[name]; ok {
		return given
	}
	return gateDefaults()[name]
}

// all are the gates of the release; their defaults are what g has them be.
func (g featureGates) all() map[featuregate.Feature]featuregate.FeatureSpec {
	specs := release.Gates()
	for name, on := range g {
		spec := specs[featuregate.Feature(name)]
		spec.Default = on
		specs[featuregate.Feature(name)] = spec
	}
	return specs
}

// check returns an error for a gate that is on without one that it needs.
func (g featureGates) check() error {
	for gate, needed := range map[string]string{gateBindingConditions: gateClaimDeviceStatus, gateTaintRules: gateTaints} {
		if g.on(gate) && !g.on(needed) {
			return fmt.Errorf("--feature-gates: %s is on, but needs %s, which is off", gate, needed)
		}
	}
	return nil
}

// devices are the features of dynamic resource allocation.
func (g featureGates) devices() dynamicresources.Features {
	return dynamicresources.Features{
		Features: structured.Features{
			AdminAccess: true, ConsumableCapacity: g.on(gateConsumableCapacity),
			DeviceBindingAndStatus: g.on(gateBindingConditions) && g.on(gateClaimDeviceStatus),
			DeviceTaints:           g.on(gateTaints), ListTypeAttributes: g.on(gateListAttributes),
			PartitionableDevices: g.on(gatePartitionable), PrioritizedList: g.on(gatePrioritizedList),
		},
		ExtendedResource: g.on(gateExtendedResource), FilterTimeout: g.on(gateFilterTimeout),
	}
}

// String implements pflag.Value.
func (g *featureGates) String() string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(*g)) {
		pairs = append(pairs, name+"="+strconv.FormatBool((*g)[name]))
	}
	return strings.Join(pairs, ",")
}

// Type implements pflag.Value.
func (*featureGates) Type() string { return "mapStringBool" }

// Set implements pflag.Value: a gate that is unknown, or that can't have the value, is an error.
func (g *featureGates) Set(text string) error {
	if *g == nil {
		*g = featureGates{}
	}
	for _, pair := range strings.Split(text, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		on, err := strconv.ParseBool(strings.TrimSpace(value))
		if !ok || err != nil {
			return fmt.Errorf("missing or invalid bool value for %s", name)
		}
		name = strings.TrimSpace(name)
		if name == "AllAlpha" || name == "AllBeta" {
			if on {
				return fmt.Errorf("feature gate %s can't be turned on", name)
			}
			if name == "AllBeta" {
				return fmt.Errorf("feature gate %s can't be turned off", name)
			}
			continue
		}
		usual, known := gateDefaults()[name]
		_, free := switchable()[name]
		if !known {
			return fmt.Errorf("unrecognized feature gate: %s", name)
		}
		if on != usual && !free {
			return fmt.Errorf("feature gate %s can only be %v in this scheduler", name, usual)
		}
		(*g)[name] = on
	}
	return nil
}
