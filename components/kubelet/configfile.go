package kubelet

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"quintet.dev/quintet/components/kubelet/eviction"
)

// ReadFile takes over the KubeletConfiguration in c.ConfigFile. Flags that were given win. A field that is not
// known, or is set but not supported, is an error that names it.
func (c *Config) ReadFile() error {
	if c.ConfigFile == "" && c.ConfigDir == "" {
		return nil
	}
	file, err := c.readFiles()
	if err != nil {
		return err
	}
	settings := c.settings(file)
	if err := c.unsupported(file, settings); err != nil {
		return err
	}
	for _, setting := range settings {
		if c.flags == nil || setting.flag == "" || !c.flags.Changed(setting.flag) {
			setting.apply()
		}
	}
	return nil
}

// setting is one supported field of the file, and the flag that wins over it.
type setting struct {
	field string // its name in the file
	flag  string
	apply func()
}

func (c *Config) settings(f *kubeletconfig.KubeletConfiguration) []setting {
	return slices.Concat(c.nodeSettings(f), c.resourceSettings(f), c.containerSettings(f), c.imageSettings(f),
		c.serverSettings(f), c.gateSettings(f))
}

func (c *Config) nodeSettings(f *kubeletconfig.KubeletConfiguration) []setting {
	return []setting{
		{"syncFrequency", "sync-frequency", duration(&c.SyncFrequency, f.SyncFrequency)},
		{"staticPodPath", "pod-manifest-path", text(&c.PodManifestPath, f.StaticPodPath)},
		{"fileCheckFrequency", "file-check-frequency", duration(&c.FileCheckFrequency, f.FileCheckFrequency)},
		{"staticPodURL", "manifest-url", text(&c.ManifestURL, f.StaticPodURL)},
		{"staticPodURLHeader", "manifest-url-header", func() {
			if len(f.StaticPodURLHeader) > 0 {
				c.ManifestURLHeader = f.StaticPodURLHeader
			}
		}},
		{"httpCheckFrequency", "http-check-frequency", duration(&c.HTTPCheckFrequency, f.HTTPCheckFrequency)},
		{"evictionHard", "eviction-hard", c.evictionHard(f)},
		{"mergeDefaultEvictionSettings", "", func() {}}, // with evictionHard
		{"evictionSoft", "eviction-soft", stringMap(&c.EvictionSoft, f.EvictionSoft)},
		{"evictionSoftGracePeriod", "eviction-soft-grace-period",
			stringMap(&c.EvictionSoftGrace, f.EvictionSoftGracePeriod)},
		{"evictionMinimumReclaim", "eviction-minimum-reclaim",
			stringMap(&c.EvictionMinReclaim, f.EvictionMinimumReclaim)},
		{"evictionPressureTransitionPeriod", "eviction-pressure-transition-period",
			duration(&c.EvictionTransition, f.EvictionPressureTransitionPeriod)},
		{"evictionMaxPodGracePeriod", "eviction-max-pod-grace-period",
			number(&c.EvictionMaxGrace, f.EvictionMaxPodGracePeriod)},
		{"podCIDR", "pod-cidr", text(&c.PodCIDR, f.PodCIDR)},
		{"providerID", "provider-id", text(&c.ProviderID, f.ProviderID)},
		{"containerRuntimeEndpoint", "container-runtime-endpoint", text(&c.CRIEndpoint, f.ContainerRuntimeEndpoint)},
		{"imageServiceEndpoint", "image-service-endpoint", text(&c.CRIImageEndpoint, f.ImageServiceEndpoint)},
		{"cgroupDriver", "cgroup-driver", text(&c.CgroupDriver, f.CgroupDriver)},
		{"registerNode", "register-node", pointer(&c.RegisterNode, f.RegisterNode)},
		{"registerWithTaints", "register-with-taints", func() {
			if len(f.RegisterWithTaints) > 0 {
				c.RegisterWithTaints = f.RegisterWithTaints
			}
		}},
		{"maxPods", "max-pods", number(&c.MaxPods, f.MaxPods)},
		{"systemReserved", "system-reserved", stringMap(&c.SystemReserved, f.SystemReserved)},
		{"kubeReserved", "kube-reserved", stringMap(&c.KubeReserved, f.KubeReserved)},
		{"nodeStatusUpdateFrequency", "node-status-update-frequency",
			duration(&c.NodeStatusUpdate, f.NodeStatusUpdateFrequency)},
		{"nodeStatusReportFrequency", "", duration(&c.NodeStatusReport, f.NodeStatusReportFrequency)},
		{"nodeLeaseDurationSeconds", "", number(&c.NodeLeaseSeconds, f.NodeLeaseDurationSeconds)},
		{"nodeStatusMaxImages", "node-status-max-images", pointer(&c.NodeStatusMaxImages, f.NodeStatusMaxImages)},
		{"kubeAPIQPS", "kube-api-qps", pointer(&c.KubeAPIQPS, f.KubeAPIQPS)},
		{"kubeAPIBurst", "kube-api-burst", number(&c.KubeAPIBurst, f.KubeAPIBurst)},
		{"eventRecordQPS", "event-qps", pointer(&c.EventQPS, f.EventRecordQPS)},
		{"eventBurst", "event-burst", number(&c.EventBurst, f.EventBurst)},
	}
}

// evictionHard takes the place of the defaults: signals that it leaves out are off, unless the defaults are to be
// merged.
func (c *Config) evictionHard(f *kubeletconfig.KubeletConfiguration) func() {
	return func() {
		if len(f.EvictionHard) == 0 {
			return
		}
		hard := map[string]string{}
		if f.MergeDefaultEvictionSettings != nil && *f.MergeDefaultEvictionSettings {
			hard = eviction.Defaults()
		}
		maps.Copy(hard, f.EvictionHard)
		c.EvictionHard = hard
	}
}

func (c *Config) containerSettings(f *kubeletconfig.KubeletConfiguration) []setting {
	return []setting{
		{"containerLogMaxSize", "container-log-max-size", text(&c.ContainerLogMaxSize, f.ContainerLogMaxSize)},
		{"containerLogMaxFiles", "container-log-max-files", pointer(&c.ContainerLogMaxFiles, f.ContainerLogMaxFiles)},
		{"podLogsDir", "pod-logs-dir", text(&c.PodLogsDir, f.PodLogsDir)},
		{"clusterDNS", "cluster-dns", func() {
			if len(f.ClusterDNS) > 0 {
				c.ClusterDNS = f.ClusterDNS
			}
		}},
		{"clusterDomain", "cluster-domain", text(&c.ClusterDomain, f.ClusterDomain)},
		{"resolvConf", "resolv-conf", pointer(&c.ResolvConf, f.ResolverConfig)},
		{"seccompDefault", "seccomp-default", pointer(&c.SeccompDefault, f.SeccompDefault)},
		{"cpuCFSQuota", "cpu-cfs-quota", pointer(&c.CPUCFSQuota, f.CPUCFSQuota)},
		{"cpuCFSQuotaPeriod", "cpu-cfs-quota-period", func() {
			if f.CPUCFSQuotaPeriod != nil {
				c.CPUCFSQuotaPeriod = f.CPUCFSQuotaPeriod.Duration
			}
		}},
		{"podPidsLimit", "pod-max-pids", pointer(&c.PodPidsLimit, f.PodPidsLimit)},
		{"allowedUnsafeSysctls", "allowed-unsafe-sysctls", func() {
			if len(f.AllowedUnsafeSysctls) > 0 {
				c.AllowedUnsafeSysctls = f.AllowedUnsafeSysctls
			}
		}},
		{"cgroupsPerQOS", "cgroups-per-qos", pointer(&c.CgroupsPerQOS, f.CgroupsPerQOS)},
		{"cgroupRoot", "cgroup-root", text(&c.CgroupRoot, f.CgroupRoot)},
		{"crashLoopBackOff", "", func() {
			if p := f.CrashLoopBackOff.MaxContainerRestartPeriod; p != nil {
				c.MaxRestartPeriod = p.Duration
			}
		}},
	}
}

func (c *Config) serverSettings(f *kubeletconfig.KubeletConfiguration) []setting {
	return []setting{
		{"enableServer", "enable-server", pointer(&c.EnableServer, f.EnableServer)},
		{"address", "address", text(&c.Address, f.Address)},
		{"port", "port", number(&c.Port, f.Port)},
		{"healthzBindAddress", "healthz-bind-address", text(&c.HealthzBindAddress, f.HealthzBindAddress)},
		{"healthzPort", "healthz-port", pointer(&c.HealthzPort, f.HealthzPort)},
		{"tlsCertFile", "tls-cert-file", text(&c.TLSCertFile, f.TLSCertFile)},
		{"tlsPrivateKeyFile", "tls-private-key-file", text(&c.TLSPrivateKeyFile, f.TLSPrivateKeyFile)},
		{"rotateCertificates", "rotate-certificates", func() {
			c.RotateCertificates = c.RotateCertificates ||
				f.RotateCertificates
		}},
		{"serverTLSBootstrap", "rotate-server-certificates", func() { c.ServerTLSBootstrap = f.ServerTLSBootstrap }},
		{"authentication", "client-ca-file", text(&c.ClientCAFile, f.Authentication.X509.ClientCAFile)},
		{"authentication", "anonymous-auth", pointer(&c.AnonymousAuth, f.Authentication.Anonymous.Enabled)},
		{"authentication", "authentication-token-webhook",
			pointer(&c.WebhookAuthentication, f.Authentication.Webhook.Enabled)},
		{"authentication", "authentication-token-webhook-cache-ttl",
			duration(&c.AuthenticationTTL, f.Authentication.Webhook.CacheTTL)},
		{"authorization", "authorization-mode", text(&c.AuthorizationMode, string(f.Authorization.Mode))},
		{"authorization", "authorization-webhook-cache-authorized-ttl",
			duration(&c.AuthorizedTTL, f.Authorization.Webhook.CacheAuthorizedTTL)},
		{"authorization", "authorization-webhook-cache-unauthorized-ttl",
			duration(&c.UnauthorizedTTL, f.Authorization.Webhook.CacheUnauthorizedTTL)},
		{"streamingConnectionIdleTimeout", "streaming-connection-idle-timeout",
			duration(&c.StreamingIdleTimeout, f.StreamingConnectionIdleTimeout)},
		{"enableSystemLogHandler", "", pointer(&c.EnableSystemLogs, f.EnableSystemLogHandler)},
		{"enableDebuggingHandlers", "enable-debugging-handlers",
			pointer(&c.EnableDebugHandlers, f.EnableDebuggingHandlers)},
	}
}

func text(to *string, from string) func() {
	return func() {
		if from != "" {
			*to = from
		}
	}
}

func number(to *int32, from int32) func() {
	return func() {
		if from != 0 {
			*to = from
		}
	}
}

func duration(to *time.Duration, from metav1.Duration) func() {
	return func() {
		if from.Duration != 0 {
			*to = from.Duration
		}
	}
}

func pointer[T any](to *T, from *T) func() {
	return func() {
		if from != nil {
			*to = *from
		}
	}
}

func stringMap(to *map[string]string, from map[string]string) func() {
	return func() {
		if len(from) > 0 {
			*to = from
		}
	}
}

// unsupported names the fields that are set, other than to nothing, and that no setting takes.
func (c *Config) unsupported(f *kubeletconfig.KubeletConfiguration, settings []setting) error {
	supported := map[string]bool{"": true}
	for _, s := range settings {
		supported[s.field] = true
	}
	var wrong []error
	value := reflect.ValueOf(f).Elem()
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
		if !supported[name] && !empty(value.Field(i)) {
			wrong = append(wrong, fmt.Errorf("--config %s: field %s is not supported by this kubelet: remove it",
				c.ConfigFile, name))
		}
	}
	return errors.Join(wrong...)
}

// empty tells whether a value is empty, including nested zeros and empty lists.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if !empty(v.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Map, reflect.Slice:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}
