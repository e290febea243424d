package controllers

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/component-base/featuregate"

	"quintet.dev/quintet/internal/release"
)

// The feature gates that can be set.
const (
	configurableTolerance = "HPAConfigurableTolerance"  // beta, on by default
	scaleToZero           = "HPAScaleToZero"            // alpha
	deviceTaints          = "DRADeviceTaints"           // beta, on by default: KEP-5055
	deviceTaintRules      = "DRADeviceTaintRules"       // beta, off by default
	maxUnavailable        = "MaxUnavailableStatefulSet" // beta, off by default
	// storageVersionMigrator lets stored objects be migrated to other versions; off by default.
	storageVersionMigrator = "StorageVersionMigrator"
	// Of certificates, off by default: the publisher of API servers' authority, and the cleaner of requests for pods'.
	trustBundle     = "ClusterTrustBundle"
	podCertificates = "PodCertificateRequest"
	flagz           = "ComponentFlagz" // serves /flagz; beta, on by default
	// Of controllers that wait until they see their own writes (KEP-5647); beta, on by default.
	consistentDaemonSets   = "StaleControllerConsistencyDaemonSet"
	consistentJobs         = "StaleControllerConsistencyJob"
	consistentReplicaSets  = "StaleControllerConsistencyReplicaSet"
	consistentStatefulSets = "StaleControllerConsistencyStatefulSet"
)

// switchable are the feature gates that can be set to either value.
func switchable() []string {
	return []string{trustBundle, flagz, deviceTaintRules, deviceTaints, configurableTolerance, scaleToZero,
		maxUnavailable, podCertificates, consistentDaemonSets, consistentJobs, consistentReplicaSets,
		consistentStatefulSets, storageVersionMigrator}
}

// unswitched are the gates that change what upstream's manager does, and that are here what they are by default. All
// others mean nothing to controllers, and may have either value, as clusters set their gates for all components alike.
func unswitched() []string {
	return []string{
		"AtomicFIFO", "ComponentStatusz", "ClientsAllowCBOR", "ClientsPreferCBOR",
		"ControllerManagerReleaseLeaderElectionLockOnExit", "CoordinatedLeaderElection", "DRAExtendedResource",
		"DRAPrioritizedList", "DRAResourcePoolStatus", "DRAWorkloadResourceClaims",
		"DeploymentReplicaSetTerminatingReplicas", "GenericWorkload", "InOrderInformersBatchProcess",
		"InformerResourceVersion", "MutableSchedulingDirectivesForSuspendedJobs", "PersistentVolumeClaimUnusedSinceTime",
		"PodDeletionCost", "PodLevelResources", "SELinuxMount",
		"StatefulSetSemanticRevisionComparison", "StorageVersionAPI",
		"TaintTolerationComparisonOperators", "WatchListClient", "WorkloadWithJob",
	}
}

// gates returns all gates of the release; their defaults are what c sets them to. AllAlpha and AllBeta stand for all of
// their stage.
func (c *Config) gates() (map[featuregate.Feature]featuregate.FeatureSpec, error) {
	specs := release.Gates()
	if len(c.FeatureGates) == 0 {
		return specs, nil
	}
	gate := featuregate.NewFeatureGate()
	if err := errors.Join(gate.Add(specs), gate.SetFromMap(c.FeatureGates)); err != nil {
		return nil, fmt.Errorf("--feature-gates: %w", err)
	}
	fixed := unswitched()
	var refused []string
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		spec := specs[name]
		on := gate.Enabled(name)
		if on != spec.Default && slices.Contains(fixed, string(name)) {
			refused = append(refused, fmt.Sprintf("%s=%v", name, on))
		}
		spec.Default = on
		specs[name] = spec
	}
	switch {
	case len(refused) > 0:
		return nil, fmt.Errorf("--feature-gates: not supported, as these features are what they are by default: %s",
			strings.Join(refused, ","))
	case gate.Enabled(deviceTaintRules) && !gate.Enabled(deviceTaints):
		return nil, fmt.Errorf("--feature-gates: %s is on, but needs %s, which is off", deviceTaintRules, deviceTaints)
	}
	return specs, nil
}

// on tells whether a gate is on, of a configuration that was validated.
func (c *Config) on(name featuregate.Feature) bool {
	specs, err := c.gates()
	return err == nil && specs[name].Default
}
