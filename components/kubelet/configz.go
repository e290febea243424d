package kubelet

import (
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// shown is the configuration as it takes effect, from flags and file, in the form of the file. What this kubelet does
// not support is left out.
func (c *Config) shown() *kubeletconfig.KubeletConfiguration {
	f := &kubeletconfig.KubeletConfiguration{}
	c.showResources(f)
	c.showNode(f)
	c.showContainers(f)
	c.showImages(f)
	c.showServer(f)
	f.FeatureGates = c.FeatureGates
	return f
}

func metaDuration(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

func (c *Config) showNode(f *kubeletconfig.KubeletConfiguration) {
	f.SyncFrequency = metaDuration(c.SyncFrequency)
	f.StaticPodPath, f.FileCheckFrequency = c.PodManifestPath, metaDuration(c.FileCheckFrequency)
	f.StaticPodURL, f.HTTPCheckFrequency = c.ManifestURL, metaDuration(c.HTTPCheckFrequency)
	if len(c.ManifestURLHeader) > 0 {
		f.StaticPodURLHeader = maps.Clone(c.ManifestURLHeader)
		for name := range f.StaticPodURLHeader {
			f.StaticPodURLHeader[name] = []string{"<masked>"} // it may be a credential
		}
	}
	f.EvictionHard, f.EvictionSoft, f.EvictionSoftGracePeriod = c.EvictionHard, c.EvictionSoft, c.EvictionSoftGrace
	f.EvictionMinimumReclaim, f.EvictionMaxPodGracePeriod = c.EvictionMinReclaim, c.EvictionMaxGrace
	f.EvictionPressureTransitionPeriod = metaDuration(c.EvictionTransition)
	f.PodCIDR, f.ProviderID = c.PodCIDR, c.ProviderID
	f.ContainerRuntimeEndpoint, f.ImageServiceEndpoint = c.CRIEndpoint, c.CRIImageEndpoint
	if c.engineKind() == "cri" {
		f.ContainerRuntimeEndpoint = c.criEndpoint()
	}
	f.CgroupDriver = c.CgroupDriver
	f.RegisterNode = &c.RegisterNode
	f.RegisterWithTaints = append([]v1.Taint(nil), c.RegisterWithTaints...)
	f.MaxPods = c.MaxPods
	f.SystemReserved, f.KubeReserved = c.SystemReserved, c.KubeReserved
	f.NodeStatusUpdateFrequency = metaDuration(c.NodeStatusUpdate)
	f.NodeStatusReportFrequency = metaDuration(c.NodeStatusReport)
	f.NodeLeaseDurationSeconds = c.NodeLeaseSeconds
	f.NodeStatusMaxImages = &c.NodeStatusMaxImages
	f.KubeAPIQPS, f.KubeAPIBurst = &c.KubeAPIQPS, c.KubeAPIBurst
	f.EventRecordQPS, f.EventBurst = &c.EventQPS, c.EventBurst
}

func (c *Config) showContainers(f *kubeletconfig.KubeletConfiguration) {
	period, restart := metaDuration(c.CPUCFSQuotaPeriod), metaDuration(c.MaxRestartPeriod)
	f.ContainerLogMaxSize, f.ContainerLogMaxFiles = c.ContainerLogMaxSize, &c.ContainerLogMaxFiles
	f.PodLogsDir = c.PodLogsDir
	f.ClusterDNS, f.ClusterDomain, f.ResolverConfig = c.ClusterDNS, c.ClusterDomain, &c.ResolvConf
	f.SeccompDefault = &c.SeccompDefault
	f.CPUCFSQuota, f.CPUCFSQuotaPeriod = &c.CPUCFSQuota, &period
	f.PodPidsLimit = &c.PodPidsLimit
	f.AllowedUnsafeSysctls = c.AllowedUnsafeSysctls
	f.CgroupsPerQOS, f.CgroupRoot = &c.CgroupsPerQOS, c.CgroupRoot
	f.CrashLoopBackOff.MaxContainerRestartPeriod = &restart
}

func (c *Config) showServer(f *kubeletconfig.KubeletConfiguration) {
	f.EnableServer, f.Address, f.Port = &c.EnableServer, c.Address, c.Port
	f.HealthzBindAddress, f.HealthzPort = c.HealthzBindAddress, &c.HealthzPort
	f.TLSCertFile, f.TLSPrivateKeyFile = c.TLSCertFile, c.TLSPrivateKeyFile
	f.RotateCertificates, f.ServerTLSBootstrap = c.RotateCertificates, c.ServerTLSBootstrap
	f.Authentication.X509.ClientCAFile = c.ClientCAFile
	f.Authentication.Anonymous.Enabled = &c.AnonymousAuth
	f.Authentication.Webhook.Enabled = &c.WebhookAuthentication
	f.Authentication.Webhook.CacheTTL = metaDuration(c.AuthenticationTTL)
	f.Authorization.Mode = kubeletconfig.KubeletAuthorizationMode(c.AuthorizationMode)
	f.Authorization.Webhook.CacheAuthorizedTTL = metaDuration(c.AuthorizedTTL)
	f.Authorization.Webhook.CacheUnauthorizedTTL = metaDuration(c.UnauthorizedTTL)
	f.StreamingConnectionIdleTimeout = metaDuration(c.StreamingIdleTimeout)
	f.EnableSystemLogHandler, f.EnableDebuggingHandlers = &c.EnableSystemLogs, &c.EnableDebugHandlers
}
