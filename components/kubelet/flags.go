package kubelet

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	cliflag "k8s.io/component-base/cli/flag"
)

// AddFlags adds upstream's flags, as far as they are supported, and those that choose the engine.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	c.flags = fs
	fs.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig, "How to reach the API server.")
	fs.StringVar(&c.BootstrapKubeconfig, "bootstrap-kubeconfig", c.BootstrapKubeconfig,
		"How to ask for a client certificate where --kubeconfig does not exist yet; the kubelet then writes it.")
	fs.StringVar(&c.ConfigFile, "config", c.ConfigFile,
		"KubeletConfiguration (kubelet.config.k8s.io/v1beta1); flags win over it.")
	fs.StringVar(&c.HostnameOverride, "hostname-override", c.HostnameOverride,
		"Name of the node instead of the machine's host name.")
	fs.StringVar(&c.NodeIP, "node-ip", c.NodeIP,
		"IP address of the node, or two of different families, separated by a comma; by default the IPv4 address of the "+
			"default route, or its IPv6 address, which :: prefers.")
	fs.StringVar(&c.RootDir, "root-dir", c.RootDir, "Directory of volumes and other files.")
	fs.StringVar(&c.CertDir, "cert-dir", c.CertDir, "Directory of certificates; by default pki in --root-dir.")
	fs.StringVar(&c.PauseImage, "pod-infra-container-image", c.PauseImage,
		"Image of the containers that hold pods' namespaces.")
	fs.StringVar(&c.PodCIDR, "pod-cidr", c.PodCIDR,
		"Range of pod addresses while the API gives the node none, or two of different families, separated by a comma.")
	fs.StringVar(&c.ProviderID, "provider-id", c.ProviderID, "Identifier of the machine at its provider.")
	c.addNodeFlags(fs)
	c.addResourceFlags(fs)
	c.addManifestFlags(fs)
	c.addEvictionFlags(fs)
	c.addContainerFlags(fs)
	c.addServerFlags(fs)
	c.addGateFlags(fs)
	addFixedFlags(fs)
	fs.StringVar(&c.ConfigDir, "config-dir", c.ConfigDir,
		"Directory of files *.conf, in the order of their names, whose fields win over those of --config.")
	fs.Int32Var(&c.OOMScoreAdj, "oom-score-adj", c.OOMScoreAdj, "oom_score_adj of the process, -1000 to 1000.")
	fs.Func("cloud-provider", "external adds the taint that another program takes off once it knows the node.",
		c.setCloudProvider)
	fs.StringVar(&c.Runtime, "runtime", c.Runtime,
		"Container engine: docker, cri, or hollow, which only pretends. "+
			"By default cri with --container-runtime-endpoint, else docker.")
	fs.StringVar(&c.CRIEndpoint, "container-runtime-endpoint", c.CRIEndpoint,
		"Where an engine listens that speaks CRI v1, such as unix:///run/containerd/containerd.sock, which is what "+
			"--runtime=cri alone means.")
	fs.StringVar(&c.CRIImageEndpoint, "image-service-endpoint", c.CRIImageEndpoint,
		"Where the images of that engine are served, if that is another socket.")
	fs.StringVar(&c.CgroupDriver, "cgroup-driver", c.CgroupDriver,
		"Who makes control groups: cgroupfs. With systemd the kubelet starts only if an engine behind CRI tells "+
			"that it uses cgroupfs.")
	fs.StringVar(&c.DockerEndpoint, "docker-endpoint", c.DockerEndpoint, "Where the Docker engine listens.")
	fs.StringVar(&c.PodNetwork, "docker-pod-network", c.PodNetwork, "Name of the Docker network of pods.")
	fs.StringVar(&c.PodBridge, "docker-pod-bridge", c.PodBridge,
		"Name of the bridge of that network; empty lets Docker choose.")
	fs.StringToStringVar(&c.DockerLabels, "docker-labels", c.DockerLabels,
		"Labels put on all containers and networks that are made.")
	fs.IntVar(&c.HollowCPUs, "hollow-cpus", c.HollowCPUs, "CPUs that a hollow node pretends to have.")
	fs.Int64Var(&c.HollowMemory, "hollow-memory", c.HollowMemory,
		"Bytes of memory that a hollow node pretends to have.")
}

func (c *Config) addNodeFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&c.RegisterNode, "register-node", c.RegisterNode, "Register the node with the API server.")
	fs.BoolVar(&c.RegisterSchedulable, "register-schedulable", c.RegisterSchedulable,
		"Register the node as schedulable.")
	fs.Var(cliflag.NewMapStringString(&c.NodeLabels), "node-labels",
		"Labels to register the node with, as key=value,...")
	fs.Var(&taintsValue{&c.RegisterWithTaints}, "register-with-taints",
		"Taints to register the node with, as key=value:effect,...")
	fs.Int32Var(&c.MaxPods, "max-pods", c.MaxPods, "Number of pods that may run here.")
	fs.Var(cliflag.NewMapStringString(&c.SystemReserved), "system-reserved",
		"Resources that pods can't have, as cpu=100m,memory=1Gi.")
	fs.Var(cliflag.NewMapStringString(&c.KubeReserved), "kube-reserved",
		"Resources that pods can't have, as cpu=100m,memory=1Gi.")
	fs.DurationVar(&c.NodeStatusUpdate, "node-status-update-frequency", c.NodeStatusUpdate,
		"How often the node's status is computed.")
	fs.Int32Var(&c.NodeStatusMaxImages, "node-status-max-images", c.NodeStatusMaxImages,
		"Images listed in the node's status; -1 lists all.")
	fs.Int32Var(&c.KubeAPIQPS, "kube-api-qps", c.KubeAPIQPS,
		"Requests per second to the API server; negative is no limit.")
	fs.Int32Var(&c.KubeAPIBurst, "kube-api-burst", c.KubeAPIBurst, "Burst of requests to the API server.")
	fs.Int32Var(&c.EventQPS, "event-qps", c.EventQPS, "Events per second; 0 is no limit.")
	fs.Int32Var(&c.EventBurst, "event-burst", c.EventBurst, "Burst of events.")
	fs.DurationVar(&c.SyncFrequency, "sync-frequency", c.SyncFrequency,
		"How often each pod is looked at without a cause.")
}

func (c *Config) addManifestFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.PodManifestPath, "pod-manifest-path", c.PodManifestPath,
		"Directory of manifests of static pods, or one manifest; names that begin with a dot are ignored.")
	fs.DurationVar(&c.FileCheckFrequency, "file-check-frequency", c.FileCheckFrequency,
		"How often manifests are read without a change.")
	fs.StringVar(&c.ManifestURL, "manifest-url", c.ManifestURL, "Page with manifests of static pods.")
	fs.Var(cliflag.NewColonSeparatedMultimapStringString(&c.ManifestURLHeader), "manifest-url-header",
		"Headers to ask --manifest-url with, as name:value,...; the flag may be repeated.")
	fs.DurationVar(&c.HTTPCheckFrequency, "http-check-frequency", c.HTTPCheckFrequency,
		"How often --manifest-url is read.")
}

func (c *Config) addEvictionFlags(fs *pflag.FlagSet) {
	fs.Var(cliflag.NewLangleSeparatedMapStringString(&c.EvictionHard), "eviction-hard",
		"What may be left at least, as memory.available<1Gi,...; pods are evicted at once.")
	fs.Var(cliflag.NewLangleSeparatedMapStringString(&c.EvictionSoft), "eviction-soft",
		"What may be left at least for longer than --eviction-soft-grace-period, as memory.available<1.5Gi,....")
	fs.Var(cliflag.NewMapStringString(&c.EvictionSoftGrace), "eviction-soft-grace-period",
		"How long less than --eviction-soft may be left, as memory.available=1m30s,....")
	fs.Var(cliflag.NewMapStringString(&c.EvictionMinReclaim), "eviction-minimum-reclaim",
		"What has to be left beyond the thresholds after an eviction, as memory.available=100Mi,....")
	fs.DurationVar(&c.EvictionTransition, "eviction-pressure-transition-period", c.EvictionTransition,
		"How long a condition of pressure stays after its cause.")
	fs.Int32Var(&c.EvictionMaxGrace, "eviction-max-pod-grace-period", c.EvictionMaxGrace,
		"Seconds that a pod gets at most to end for --eviction-soft.")
}

func (c *Config) addContainerFlags(fs *pflag.FlagSet) {
	c.addImageFlags(fs)
	fs.StringVar(&c.ContainerLogMaxSize, "container-log-max-size", c.ContainerLogMaxSize,
		"Size at which a container's log is rotated.")
	fs.Int32Var(&c.ContainerLogMaxFiles, "container-log-max-files", c.ContainerLogMaxFiles,
		"Log files kept per container.")
	fs.StringVar(&c.PodLogsDir, "pod-logs-dir", c.PodLogsDir, "Directory of the logs of pods.")
	fs.StringSliceVar(&c.ClusterDNS, "cluster-dns", c.ClusterDNS, "IP addresses of the cluster's DNS servers.")
	fs.StringVar(&c.ClusterDomain, "cluster-domain", c.ClusterDomain, "DNS domain of the cluster.")
	fs.StringVar(&c.ResolvConf, "resolv-conf", c.ResolvConf, "The node's resolver configuration; empty is none.")
	fs.BoolVar(&c.SeccompDefault, "seccomp-default", c.SeccompDefault,
		"Use the engine's seccomp profile where a pod asks for none.")
	fs.BoolVar(&c.CPUCFSQuota, "cpu-cfs-quota", c.CPUCFSQuota, "Enforce CPU limits.")
	fs.DurationVar(&c.CPUCFSQuotaPeriod, "cpu-cfs-quota-period", c.CPUCFSQuotaPeriod, "Period of CPU quotas.")
	fs.Int64Var(&c.PodPidsLimit, "pod-max-pids", c.PodPidsLimit, "Processes of a pod; -1 is no limit.")
	fs.StringSliceVar(&c.AllowedUnsafeSysctls, "allowed-unsafe-sysctls", c.AllowedUnsafeSysctls,
		"Kernel settings, or beginnings of such that end in *, that pods may have beside those that are safe.")
	fs.BoolVar(&c.CgroupsPerQOS, "cgroups-per-qos", c.CgroupsPerQOS,
		"Put pods into control groups by quality of service, where this process may make them.")
	fs.StringVar(&c.CgroupRoot, "cgroup-root", c.CgroupRoot, "Control group below which pods' are made.")
}

func (c *Config) addServerFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&c.EnableServer, "enable-server", c.EnableServer, "Serve the kubelet's API.")
	fs.StringVar(&c.Address, "address", c.Address, "Address to serve on.")
	fs.Int32Var(&c.Port, "port", c.Port, "Port to serve on.")
	fs.StringVar(&c.HealthzBindAddress, "healthz-bind-address", c.HealthzBindAddress, "Address of the health endpoint.")
	fs.Int32Var(&c.HealthzPort, "healthz-port", c.HealthzPort, "Port of the health endpoint; 0 turns it off.")
	fs.StringVar(&c.TLSCertFile, "tls-cert-file", c.TLSCertFile,
		"Serving certificate; by default one signed by itself, in --cert-dir.")
	fs.StringVar(&c.TLSPrivateKeyFile, "tls-private-key-file", c.TLSPrivateKeyFile, "Key of the serving certificate.")
	fs.BoolVar(&c.RotateCertificates, "rotate-certificates", c.RotateCertificates,
		"Renew the client certificate before it expires.")
	fs.BoolVar(&c.ServerTLSBootstrap, "rotate-server-certificates", c.ServerTLSBootstrap,
		"Have the serving certificate signed by the API server, and renewed before it expires.")
	fs.StringVar(&c.ClientCAFile, "client-ca-file", c.ClientCAFile, "Authority of clients' certificates.")
	fs.BoolVar(&c.AnonymousAuth, "anonymous-auth", c.AnonymousAuth,
		"Let requests without credentials through to authorization.")
	fs.BoolVar(&c.WebhookAuthentication, "authentication-token-webhook", c.WebhookAuthentication,
		"Let the API server review tokens.")
	fs.DurationVar(&c.AuthenticationTTL, "authentication-token-webhook-cache-ttl", c.AuthenticationTTL,
		"How long token reviews are remembered.")
	fs.StringVar(&c.AuthorizationMode, "authorization-mode", c.AuthorizationMode,
		"AlwaysAllow, or Webhook: the API server decides.")
	fs.DurationVar(&c.AuthorizedTTL, "authorization-webhook-cache-authorized-ttl", c.AuthorizedTTL,
		"How long a yes is remembered.")
	fs.DurationVar(&c.UnauthorizedTTL, "authorization-webhook-cache-unauthorized-ttl", c.UnauthorizedTTL,
		"How long a no is remembered.")
	fs.DurationVar(&c.StreamingIdleTimeout, "streaming-connection-idle-timeout", c.StreamingIdleTimeout,
		"When idle exec, attach and port-forward connections are closed.")
	fs.BoolVar(&c.EnableDebugHandlers, "enable-debugging-handlers", c.EnableDebugHandlers,
		"Serve logs, exec, attach and port-forward.")
}

// taintsValue reads taints as key=value:effect,key:effect.
type taintsValue struct{ taints *[]v1.Taint }

func (t *taintsValue) Type() string { return "taints" }

func (t *taintsValue) String() string {
	if t.taints == nil {
		return ""
	}
	words := make([]string, len(*t.taints))
	for i := range *t.taints {
		words[i] = (*t.taints)[i].ToString()
	}
	return strings.Join(words, ",")
}

func (t *taintsValue) Set(text string) error {
	for _, word := range strings.Split(text, ",") {
		if word == "" {
			continue
		}
		rest, effect, ok := strings.Cut(word, ":")
		if !ok {
			return fmt.Errorf("taint %q: use key=value:effect", word)
		}
		switch v1.TaintEffect(effect) {
		case v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute:
		default:
			return fmt.Errorf("taint %q: effect %q is not NoSchedule, PreferNoSchedule or NoExecute", word, effect)
		}
		key, value, _ := strings.Cut(rest, "=")
		*t.taints = append(*t.taints, v1.Taint{Key: key, Value: value, Effect: v1.TaintEffect(effect)})
	}
	return nil
}
