package controllers

import (
	"maps"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentv1alpha1 "k8s.io/component-base/config/v1alpha1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/garbagecollector"
)

// configz is the name of the configuration in the answer of /configz.
const configz = "kubecontrollermanager.config.k8s.io"

// section is a part of the configuration. Upstream's has no names for JSON, so its fields are called as in Go.
type section map[string]any

// configuration tells what c comes to in the form of upstream's KubeControllerManagerConfiguration (v1alpha1), as far
// as it has an effect here.
func (c *Config) configuration() section {
	out := section{"kind": "KubeControllerManagerConfiguration", "apiVersion": configz + "/v1alpha1"}
	for _, part := range []section{c.generic(), c.ofControllers(), c.ofNodes(), c.ofKeys(), c.Storage.ofStorage(),
		c.Autoscaler.ofAutoscaler()} {
		maps.Copy(out, part)
	}
	return out
}

func (c *Config) generic() section {
	e := &c.LeaderElection
	return section{
		"Generic": section{
			"MinResyncPeriod": seconds(c.MinResyncPeriod), "ControllerStartInterval": seconds(c.ControllerStartInterval),
			"Controllers": c.Controllers,
			"ClientConnection": componentv1alpha1.ClientConnectionConfiguration{
				Kubeconfig: c.Kubeconfig, ContentType: c.KubeAPIContentType, QPS: c.KubeAPIQPS,
				Burst: int32(c.KubeAPIBurst),
			},
			"LeaderElection": componentv1alpha1.LeaderElectionConfiguration{
				LeaderElect: &e.Elect, LeaseDuration: seconds(e.LeaseDuration), RenewDeadline: seconds(e.RenewDeadline),
				RetryPeriod:  seconds(e.RetryPeriod),
				ResourceLock: e.ResourceLock, ResourceName: e.ResourceName, ResourceNamespace: e.ResourceNamespace,
			},
			"Debugging": componentv1alpha1.DebuggingConfiguration{
				EnableProfiling: ptr.To(c.Profiling.On), EnableContentionProfiling: ptr.To(c.Profiling.Contention),
			},
		},
		"KubeCloudShared": section{
			"CloudProvider": section{"Name": c.Cloud.Provider, "CloudConfigFile": c.Cloud.ConfigFile},
			"ClusterName":   c.Cloud.ClusterName, "CIDRAllocatorType": c.Cloud.CIDRAllocatorType,
			"ConfigureCloudRoutes":         c.Cloud.ConfigureRoutes,
			"UseServiceAccountCredentials": c.UseServiceAccountCredentials,
			"NodeMonitorPeriod":            seconds(c.NodeMonitorPeriod),
			"ClusterCIDR":                  c.ClusterCIDR, "AllocateNodeCIDRs": c.AllocateNodeCIDRs,
		},
	}
}

// ofControllers tells how much the controllers do at once, and how often.
func (c *Config) ofControllers() section {
	return section{
		"DaemonSetController":   section{"ConcurrentDaemonSetSyncs": c.ConcurrentDaemonSetSyncs},
		"DeploymentController":  section{"ConcurrentDeploymentSyncs": c.ConcurrentDeploymentSyncs},
		"StatefulSetController": section{"ConcurrentStatefulSetSyncs": c.ConcurrentStatefulSetSyncs},
		"EndpointController": section{
			"ConcurrentEndpointSyncs":    c.ConcurrentEndpointSyncs,
			"EndpointUpdatesBatchPeriod": seconds(c.EndpointUpdatesBatchPeriod),
		},
		"EndpointSliceController": section{
			"ConcurrentServiceEndpointSyncs": c.ConcurrentServiceEndpointSyncs,
			"MaxEndpointsPerSlice":           c.MaxEndpointsPerSlice,
			"EndpointUpdatesBatchPeriod":     seconds(c.EndpointSliceUpdatesBatchPeriod),
		},
		"EndpointSliceMirroringController": section{
			"MirroringConcurrentServiceEndpointSyncs": c.MirroringConcurrentSyncs,
			"MirroringMaxEndpointsPerSubset":          c.MirroringMaxEndpointsPerSubset,
			"MirroringEndpointUpdatesBatchPeriod":     seconds(c.MirroringUpdatesBatchPeriod),
		},
		"GarbageCollectorController": section{
			"EnableGarbageCollector": c.EnableGarbageCollector, "ConcurrentGCSyncs": c.ConcurrentGCSyncs,
			"GCIgnoredResources": garbagecollector.Ignored(),
		},
		"DeviceTaintEvictionController": section{"ConcurrentSyncs": c.ConcurrentDeviceTaintEvictionSyncs},
		"JobController":                 section{"ConcurrentJobSyncs": c.ConcurrentJobSyncs},
		"CronJobController":             section{"ConcurrentCronJobSyncs": c.ConcurrentCronJobSyncs},
		"NamespaceController": section{
			"NamespaceSyncPeriod":      seconds(c.NamespaceSyncPeriod),
			"ConcurrentNamespaceSyncs": c.ConcurrentNamespaceSyncs,
		},
		"PodGCController":       section{"TerminatedPodGCThreshold": c.TerminatedPodGCThreshold},
		"ReplicaSetController":  section{"ConcurrentRSSyncs": c.ConcurrentReplicaSetSyncs},
		"ReplicationController": section{"ConcurrentRCSyncs": c.ConcurrentRCSyncs},
		"ResourceQuotaController": section{
			"ResourceQuotaSyncPeriod":      seconds(c.ResourceQuotaSyncPeriod),
			"ConcurrentResourceQuotaSyncs": c.ConcurrentResourceQuotaSyncs,
		},
		"TTLAfterFinishedController":                section{"ConcurrentTTLSyncs": c.ConcurrentTTLSyncs},
		"ValidatingAdmissionPolicyStatusController": section{"ConcurrentPolicySyncs": c.ConcurrentPolicySyncs},
	}
}

func (c *Config) ofNodes() section {
	first, second, _ := strings.Cut(c.ServiceClusterIPRange, ",")
	return section{
		"NodeIPAMController": section{
			"ServiceCIDR": first, "SecondaryServiceCIDR": second, "NodeCIDRMaskSize": c.NodeCIDRMaskSize,
			"NodeCIDRMaskSizeIPv4": c.NodeCIDRMaskSizeIPv4, "NodeCIDRMaskSizeIPv6": c.NodeCIDRMaskSizeIPv6,
		},
		"NodeLifecycleController": section{
			"NodeEvictionRate": c.NodeEvictionRate, "SecondaryNodeEvictionRate": c.SecondaryNodeEvictionRate,
			"NodeStartupGracePeriod":    seconds(c.NodeStartupGracePeriod),
			"NodeMonitorGracePeriod":    seconds(c.NodeMonitorGracePeriod),
			"LargeClusterSizeThreshold": c.LargeClusterSizeThreshold,
			"UnhealthyZoneThreshold":    c.UnhealthyZoneThreshold,
		},
	}
}

// ofKeys returns the settings of keys, certificates and signing.
func (c *Config) ofKeys() section {
	files := func(cert, key string) section { return section{"CertFile": cert, "KeyFile": key} }
	return section{
		"CSRSigningController": section{
			"ClusterSigningCertFile": c.ClusterSigningCertFile, "ClusterSigningKeyFile": c.ClusterSigningKeyFile,
			"ClusterSigningDuration": seconds(c.ClusterSigningDuration),
			"KubeletServingSignerConfiguration": files(c.ClusterSigningKubeletServingCertFile,
				c.ClusterSigningKubeletServingKeyFile),
			"KubeletClientSignerConfiguration": files(c.ClusterSigningKubeletClientCertFile,
				c.ClusterSigningKubeletClientKeyFile),
			"KubeAPIServerClientSignerConfiguration": files(c.ClusterSigningAPIServerClientCertFile,
				c.ClusterSigningAPIServerClientKeyFile),
			"LegacyUnknownSignerConfiguration": files(c.ClusterSigningLegacyUnknownCertFile,
				c.ClusterSigningLegacyUnknownKeyFile),
		},
		"LegacySATokenCleaner": section{"CleanUpPeriod": seconds(c.LegacySATokenCleanUpPeriod)},
		"SAController": section{
			"ServiceAccountKeyFile": c.ServiceAccountPrivateKeyFile, "ConcurrentSATokenSyncs": c.ConcurrentSATokenSyncs,
			"RootCAFile": c.RootCAFile,
		},
	}
}

func seconds(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
