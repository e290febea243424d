// Package kubelet is the node agent: it registers its machine as a Node and runs the pods bound to it on a
// container engine. Follow a pod through it: pods → plan → runtime → status.
package kubelet

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/eviction"
	"quintet.dev/quintet/components/kubelet/fleet"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/runtime/cri"
	"quintet.dev/quintet/components/kubelet/sysctls"
)

// Config is the configuration of a kubelet. NewConfig returns upstream's defaults; flags and the configuration
// file set the rest. Fields that say "injected" are for tests and for many kubelets in one process.
type Config struct {
	Kubeconfig          string
	BootstrapKubeconfig string
	ConfigFile          string
	ConfigDir           string // of files that win over ConfigFile; "" is none
	HostnameOverride    string
	NodeIP              string
	RootDir             string
	CertDir             string
	PauseImage          string
	PodCIDR             string
	OOMScoreAdj         int32 // of the program; many kubelets in one process leave it
	ProviderID          string

	RegisterNode          bool
	RegisterSchedulable   bool
	NodeLabels            map[string]string
	RegisterWithTaints    []v1.Taint
	MaxPods               int32
	SystemReserved        map[string]string
	KubeReserved          map[string]string
	PodManifestPath       string // a directory or a file; "" is none
	FileCheckFrequency    time.Duration
	ManifestURL           string
	ManifestURLHeader     map[string][]string
	HTTPCheckFrequency    time.Duration
	EvictionHard          map[string]string
	EvictionSoft          map[string]string
	EvictionSoftGrace     map[string]string
	EvictionMinReclaim    map[string]string
	EvictionTransition    time.Duration
	EvictionMaxGrace      int32 // seconds
	NodeStatusUpdate      time.Duration
	NodeStatusReport      time.Duration
	NodeLeaseSeconds      int32
	NodeStatusMaxImages   int32
	KubeAPIQPS            int32
	KubeAPIBurst          int32
	EventQPS              int32
	EventBurst            int32
	SyncFrequency         time.Duration
	MaxRestartPeriod      time.Duration // of the crash-loop back-off
	SerializeImagePulls   bool
	RegistryQPS           int32 // pulls per second; 0 is no limit
	RegistryBurst         int32
	MaxParallelImagePulls int32 // 0 is any number, if they are not serialized
	ImageGCHighThreshold  int32 // percent of the disk
	ImageGCLowThreshold   int32
	ImageMinimumGCAge     time.Duration
	ImageMaximumGCAge     time.Duration // 0 is for ever
	// ImageVerification and its list tell when a pod has to show that it could pull an image of the node.
	ImageVerification     kubeletconfig.ImagePullCredentialsVerificationPolicy
	ImageVerificationList []string
	// ImageProviderConfig is the configuration, a file or a directory, of the programs in ImageProviderDir that give
	// credentials of images.
	ImageProviderConfig string
	ImageProviderDir    string
	// ImagePullProgressDeadline ends a pull that makes no progress for so long.
	ImagePullProgressDeadline time.Duration
	ContainerLogMaxSize       string
	ContainerLogMaxFiles      int32
	PodLogsDir                string
	ClusterDNS                []string
	ClusterDomain             string
	ResolvConf                string
	SeccompDefault            bool
	CPUCFSQuota               bool
	CPUCFSQuotaPeriod         time.Duration
	PodPidsLimit              int64
	AllowedUnsafeSysctls      []string
	CgroupsPerQOS             bool
	CgroupRoot                string
	EnableServer              bool
	Address                   string
	Port                      int32
	HealthzBindAddress        string
	HealthzPort               int32
	TLSCertFile               string
	TLSPrivateKeyFile         string
	RotateCertificates        bool
	ServerTLSBootstrap        bool
	ClientCAFile              string
	AnonymousAuth             bool
	WebhookAuthentication     bool
	AuthenticationTTL         time.Duration
	AuthorizationMode         string // AlwaysAllow or Webhook
	AuthorizedTTL             time.Duration
	UnauthorizedTTL           time.Duration
	StreamingIdleTimeout      time.Duration
	EnableDebugHandlers       bool
	EnableSystemLogs          bool // only with EnableDebugHandlers

	ResourceConfig

	// FeatureGates has what differs from upstream's defaults; switchable has those that can be set.
	FeatureGates map[string]bool

	// Runtime is "docker", "cri" or "hollow"; "" is "cri" where CRIEndpoint is given, else "docker".
	Runtime string
	// CRIEndpoint is the socket of an engine that speaks CRI, CRIImageEndpoint that of its images if it is another.
	CRIEndpoint, CRIImageEndpoint string
	// CgroupDriver is "cgroupfs", or "systemd" for upstream's files; see checkCgroupDriver.
	CgroupDriver   string
	DockerEndpoint string
	PodNetwork     string            // name of the engine's network for pods
	PodBridge      string            // name of its bridge; empty lets the engine choose
	DockerLabels   map[string]string // on everything made on the engine
	HollowCPUs     int
	HollowMemory   int64 // bytes

	// Injected, instead of a kubeconfig, the system's clock, an engine by name and recorded events.
	Client   kubernetes.Interface
	Clock    clock.WithTickerAndDelayedExecution
	Engine   runtime.Engine
	Recorder record.EventRecorder
	// Fleet is what kubelets of this process share, instead of a kubeconfig; nil: this kubelet has all of its own.
	Fleet *fleet.Fleet
	// Listener serves the API of the kubelet instead of Address and Port; it is owned by the kubelet.
	Listener net.Listener

	flags *pflag.FlagSet
}

// NewConfig returns upstream's defaults.
func NewConfig() *Config {
	return &Config{
		OOMScoreAdj: -999, RootDir: "/var/lib/kubelet", CertDir: "", PauseImage: "quintet/pause:dev",
		RegisterNode: true, RegisterSchedulable: true, NodeLabels: map[string]string{}, MaxPods: 110,
		NodeStatusUpdate: 10 * time.Second, NodeStatusReport: 5 * time.Minute, NodeLeaseSeconds: 40,
		NodeStatusMaxImages: 50,
		KubeAPIQPS:          50, KubeAPIBurst: 100, EventQPS: fleet.EventQPS, EventBurst: fleet.EventBurst,
		FileCheckFrequency: 20 * time.Second, HTTPCheckFrequency: 20 * time.Second, ManifestURLHeader: map[string][]string{},
		EvictionHard: eviction.Defaults(), EvictionSoft: map[string]string{}, EvictionSoftGrace: map[string]string{},
		EvictionMinReclaim: map[string]string{}, EvictionTransition: 5 * time.Minute,
		SyncFrequency: time.Minute, MaxRestartPeriod: 5 * time.Minute,
		SerializeImagePulls: true, RegistryQPS: 5, RegistryBurst: 10, ImageGCHighThreshold: 85, ImageGCLowThreshold: 80,
		ImageMinimumGCAge: 2 * time.Minute,
		ImageVerification: kubeletconfig.NeverVerifyPreloadedImages, ImagePullProgressDeadline: time.Minute,
		ContainerLogMaxSize: "10Mi", ContainerLogMaxFiles: 5, PodLogsDir: "/var/log/pods",
		ResolvConf: "/etc/resolv.conf", CPUCFSQuota: true, CPUCFSQuotaPeriod: 100 * time.Millisecond, PodPidsLimit: -1,
		CgroupsPerQOS: true, EnableServer: true, Address: "0.0.0.0", Port: 10250,
		HealthzBindAddress: "127.0.0.1", HealthzPort: 10248,
		WebhookAuthentication: true, AuthenticationTTL: 2 * time.Minute, AuthorizationMode: "Webhook",
		AuthorizedTTL: 5 * time.Minute, UnauthorizedTTL: 30 * time.Second,
		StreamingIdleTimeout: 4 * time.Hour, EnableDebugHandlers: true, EnableSystemLogs: true,
		CgroupDriver: "cgroupfs", DockerEndpoint: "unix:///var/run/docker.sock", PodNetwork: "quintet-pods",
		PodBridge:  "cbr0",
		HollowCPUs: 32, HollowMemory: 128 << 30, ResourceConfig: newResourceConfig(),
	}
}

// validate tells everything that is wrong with a configuration, each with what to do.
func (c *Config) validate() error {
	var wrong []error
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if c.Client == nil && c.Fleet == nil && c.Kubeconfig == "" {
		bad("--kubeconfig is required: a kubelet without an API server is not supported")
	}
	c.validateEngine(bad)
	if c.AuthorizationMode != "AlwaysAllow" && c.AuthorizationMode != "Webhook" {
		bad("--authorization-mode %q: use AlwaysAllow or Webhook", c.AuthorizationMode)
	}
	if (c.TLSCertFile == "") != (c.TLSPrivateKeyFile == "") {
		bad("--tls-cert-file and --tls-private-key-file: give both or none")
	}
	if _, err := parseNodeIPs(c.NodeIP); err != nil {
		bad("--node-ip %q: %w", c.NodeIP, err)
	}
	if _, err := splitCIDRs(c.PodCIDR); err != nil {
		bad("--pod-cidr %q: %w", c.PodCIDR, err)
	}
	for _, server := range c.ClusterDNS {
		if net.ParseIP(server) == nil {
			bad("--cluster-dns %q is not an IP address", server)
		}
	}
	if c.MaxRestartPeriod < time.Second || c.MaxRestartPeriod > 5*time.Minute {
		bad("crashLoopBackOff.maxContainerRestartPeriod %v: use 1s to 300s", c.MaxRestartPeriod)
	}
	if c.OOMScoreAdj < -1000 || c.OOMScoreAdj > 1000 {
		bad("--oom-score-adj %d: use a number from -1000 to 1000", c.OOMScoreAdj)
	}
	if c.MaxPods < 0 {
		bad("--max-pods %d: use a number that is not negative", c.MaxPods)
	}
	for name, duration := range map[string]time.Duration{
		"--sync-frequency": c.SyncFrequency, "--node-status-update-frequency": c.NodeStatusUpdate,
		"--cpu-cfs-quota-period": c.CPUCFSQuotaPeriod, "--file-check-frequency": c.FileCheckFrequency,
		"--http-check-frequency": c.HTTPCheckFrequency,
	} {
		if duration <= 0 {
			bad("%s %v: use a duration greater than 0", name, duration)
		}
	}
	if _, err := sysctls.New(c.AllowedUnsafeSysctls); err != nil {
		bad("--allowed-unsafe-sysctls: %w", err)
	}
	if _, err := eviction.Parse(c.eviction()); err != nil {
		bad("--eviction-hard, --eviction-soft and their like: %w", err)
	}
	if err := c.validateResources(); err != nil {
		wrong = append(wrong, err)
	}
	c.validateImages(bad)
	if err := c.validateGates(); err != nil {
		wrong = append(wrong, err)
	}
	if c.ContainerLogMaxFiles <= 1 {
		bad("--container-log-max-files %d: use a number greater than 1", c.ContainerLogMaxFiles)
	}
	if !filepath.IsAbs(c.PodLogsDir) || filepath.Clean(c.PodLogsDir) != c.PodLogsDir {
		bad("podLogsDir %q: use an absolute path without . and ..", c.PodLogsDir)
	}
	return errors.Join(wrong...)
}

// engineKind is "docker", "cri" or "hollow".
func (c *Config) engineKind() string {
	switch {
	case c.Runtime != "":
		return c.Runtime
	case c.CRIEndpoint != "":
		return "cri"
	}
	return "docker"
}

// criEndpoint is where the engine listens, by default containerd.
func (c *Config) criEndpoint() string {
	if c.CRIEndpoint == "" {
		return "unix:///run/containerd/containerd.sock"
	}
	return c.CRIEndpoint
}

// enginePID is the file in which the engine's process ID is, "" if there is none.
func (c *Config) enginePID() string {
	if c.engineKind() == "docker" {
		return "/var/run/docker.pid"
	}
	return ""
}

func (c *Config) validateEngine(bad func(format string, args ...any)) {
	kind := c.engineKind()
	if kind != "docker" && kind != "cri" && kind != "hollow" {
		bad("--runtime %q: use docker, cri or hollow", c.Runtime)
	}
	for flag, endpoint := range map[string]string{
		"--container-runtime-endpoint": c.CRIEndpoint, "--image-service-endpoint": c.CRIImageEndpoint,
	} {
		if endpoint == "" {
			continue
		}
		if kind != "cri" {
			bad("%s %q: --runtime=%s has none", flag, endpoint, kind)
		}
		if err := cri.CheckEndpoint(endpoint); err != nil {
			bad("%s: %w", flag, err)
		}
	}
	if c.CgroupDriver != "cgroupfs" && c.CgroupDriver != "systemd" {
		bad("--cgroup-driver %q: use cgroupfs or systemd", c.CgroupDriver)
	}
}

func (c *Config) eviction() eviction.Settings {
	return eviction.Settings{
		Hard: c.EvictionHard, Soft: c.EvictionSoft, SoftGrace: c.EvictionSoftGrace, MinimumReclaim: c.EvictionMinReclaim,
	}
}
