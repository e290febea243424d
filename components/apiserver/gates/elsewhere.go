package gates

import "k8s.io/component-base/featuregate"

// elsewhere are the gates that upstream's kube-apiserver knows, as it shares the list with the other components, and
// never asks for: it does the same however they are set.
var elsewhere = []featuregate.Feature{
	"AllowDNSOnlyNodeCSR", "AllowServiceExternalIPs", "CPUManagerPolicyAlphaOptions", "CPUManagerPolicyBetaOptions",
	"CRIListStreaming", "CSIVolumeHealth", "ChangeContainerStatusOnKubeletRestart",
	"CloudControllerManagerWatchBasedRoutesReconciliation", "CloudControllerManagerWebhook", "ContainerCheckpoint",
	"ControllerManagerReleaseLeaderElectionLockOnExit", "CustomCPUCFSQuotaPeriod", "DRASchedulerFilterTimeout",
	"DeclarativeValidationTakeover", "DisableCPUQuotaWithExclusiveCPUs", "EventedPLEG", "GangScheduling",
	"GracefulNodeShutdown",
	"GracefulNodeShutdownBasedOnPodPriority", "InPlacePodVerticalScalingExclusiveCPUs",
	"InPlacePodVerticalScalingExclusiveMemory",
	"KubeletCrashLoopBackOffMax", "KubeletEnsureSecretPulledImages", "KubeletInUserNamespace",
	"KubeletPodResourcesListUseActivePods", "KubeletRegistrationGetOnExistsOnly", "KubeletSeparateDiskGC",
	"LocalStorageCapacityIsolationFSQuotaMonitoring", "MemoryQoS", "NominatedNodeNameForExpectation",
	"OpportunisticBatching",
	"PLEGOnDemandRelist", "PersistentVolumeClaimUnusedSinceTime", "PodAndContainerStatsFromCRI",
	"PodLevelResourceManagers",
	"PodReadyToStartContainersCondition", "PodsAPI", "PreventStaticPodAPIReferences", "QOSReserved",
	"ReduceDefaultCrashLoopBackOffDecay", "ReloadKubeletClientCAFile", "ReloadKubeletServerCertificateFile",
	"RotateKubeletServerCertificate", "RuntimeClassInImageCriApi", "SchedulerAsyncAPICalls", "SchedulerAsyncPreemption",
	"SchedulerPopFromBackoffQ", "StaleControllerConsistencyDaemonSet", "StaleControllerConsistencyJob",
	"StaleControllerConsistencyReplicaSet", "StaleControllerConsistencyStatefulSet",
	"StatefulSetSemanticRevisionComparison",
	"StorageCapacityScoring", "TopologyManagerPolicyAlphaOptions", "TopologyManagerPolicyBetaOptions",
	"WindowsCPUAndMemoryAffinity", "WindowsGracefulNodeShutdown", "WindowsHostNetwork",
}

// within are the gates that choose between two equivalent implementations inside upstream's kube-apiserver: how its own
// clients, their caches and its goroutines work, how it keeps Pods, and what definitions lose of their status in writes
// that leave the status as it was. There is none of that here, and the answers don't depend on them.
var within = []featuregate.Feature{
	"APIServingWithRoutine", "AtomicFIFO", "CRDObservedGenerationTracking", "ClientsAllowCARotation",
	"ClientsAllowCBOR",
	"ClientsAllowTLSCacheGC", "ClientsPreferCBOR", "ConcurrentWatchObjectDecode", "ContextualLogging",
	"InOrderInformersBatchProcess",
	"InformerResourceVersion", "StorageNamespaceIndex", "UnlockWhileProcessingFIFO", "WatchListClient",
}

// needs are the features that others can't be on without, as far as either can be set.
func needs() map[featuregate.Feature][]featuregate.Feature {
	return map[featuregate.Feature][]featuregate.Feature{
		"ClusterTrustBundleProjection":                   {"ClusterTrustBundle"},
		"DRADeviceBindingConditions":                     {"DRAResourceClaimDeviceStatus"},
		"DRADeviceTaintRules":                            {"DRADeviceTaints"},
		"DRAResourceClaimGranularStatusAuthorization":    {"DRAResourceClaimDeviceStatus"},
		"DRAWorkloadResourceClaims":                      {"GenericWorkload"},
		"ExtendWebSocketsToKubelet":                      {"NodeDeclaredFeatures"},
		"GangScheduling":                                 {"GenericWorkload"},
		"GracefulNodeShutdownBasedOnPodPriority":         {"GracefulNodeShutdown"},
		"InPlacePodLevelResourcesVerticalScaling":        {"PodLevelResources", "NodeDeclaredFeatures"},
		"InPlacePodVerticalScalingInitContainers":        {"NodeDeclaredFeatures"},
		"MatchLabelKeysInPodTopologySpreadSelectorMerge": {"MatchLabelKeysInPodTopologySpread"},
		"PodLevelResourceManagers":                       {"PodLevelResources"},
		"ResourceHealthStatusMessage":                    {"ResourceHealthStatus"},
		"RestartAllContainersOnContainerExits":           {"ContainerRestartRules", "NodeDeclaredFeatures"},
		"StaleControllerConsistencyDaemonSet":            {"AtomicFIFO"},
		"StaleControllerConsistencyJob":                  {"AtomicFIFO"},
		"StaleControllerConsistencyReplicaSet":           {"AtomicFIFO"},
		"StaleControllerConsistencyStatefulSet":          {"AtomicFIFO"},
		"StorageVersionAPI":                              {"APIServerIdentity"},
		"TopologyAwareWorkloadScheduling":                {"GenericWorkload"},
		"UnknownVersionInteroperabilityProxy":            {"APIServerIdentity"},
		"UserNamespacesHostNetworkSupport":               {"NodeDeclaredFeatures"},
		"WindowsGracefulNodeShutdown":                    {"GracefulNodeShutdown"},
		"WorkloadAwarePreemption":                        {"GangScheduling"},
		"WorkloadWithJob":                                {"GenericWorkload"},
	}
}
