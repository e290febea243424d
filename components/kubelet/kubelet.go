package kubelet

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/cgroups"
	"quintet.dev/quintet/components/kubelet/hooks"
	"quintet.dev/quintet/components/kubelet/hostports"
	"quintet.dev/quintet/components/kubelet/images"
	"quintet.dev/quintet/components/kubelet/node"
	"quintet.dev/quintet/components/kubelet/objects"
	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/pods"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/runtime/docker"
	"quintet.dev/quintet/components/kubelet/runtime/hollow"
	"quintet.dev/quintet/components/kubelet/spec"
	"quintet.dev/quintet/components/kubelet/status"
	"quintet.dev/quintet/components/kubelet/sysctls"
	"quintet.dev/quintet/components/kubelet/volumes"
)

// Kubelet is one node's agent. Several may live in one process.
type Kubelet struct {
	config Config
	name   string
	clock  clock.WithTickerAndDelayedExecution
}

// New checks the configuration, the configuration file included. Nothing is started.
func New(config Config) (*Kubelet, error) {
	if err := config.ReadFile(); err != nil {
		return nil, err
	}
	if err := config.validate(); err != nil {
		return nil, err
	}
	name := config.HostnameOverride
	if name == "" {
		hostname, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("host name (or give --hostname-override): %w", err)
		}
		name = hostname
	}
	k := &Kubelet{config: config, name: strings.ToLower(strings.TrimSpace(name)), clock: config.Clock}
	if k.clock == nil {
		k.clock = clock.RealClock{}
	}
	if k.config.CertDir == "" {
		k.config.CertDir = filepath.Join(k.config.RootDir, "pki")
	}
	return k, nil
}

// Name is the node's.
func (k *Kubelet) Name() string { return k.name }

// Run works until ctx ends. Containers go on when it returns.
func (k *Kubelet) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("node", k.name))
	group, ctx := errgroup.WithContext(ctx)
	client, err := k.client(ctx, group)
	if err != nil {
		return err
	}
	engine, closeEngine, err := k.engine(ctx)
	if err != nil {
		return err
	}
	defer closeEngine()
	recorder, stopEvents := k.recorder(ctx, client)
	defer stopEvents()
	parts, err := k.assemble(ctx, client, engine, recorder)
	if err != nil {
		return err
	}
	if k.config.EnableServer {
		if err := k.serve(ctx, group, client, engine, parts); err != nil {
			return err
		}
	}
	group.Go(func() error { return parts.node.Run(ctx) })
	group.Go(func() error { parts.writer.Run(ctx, statusWriters); return nil })
	group.Go(func() error { parts.pods.Run(ctx); return nil })
	group.Go(func() error { parts.follow(ctx, client, k.name); return nil })
	err = group.Wait()
	parts.objects.Wait()
	return err
}

// statusWriters is how many statuses are sent at once.
const statusWriters = 10

// parts are the rooms of a kubelet, wired.
type parts struct {
	node     *node.Node
	pods     *pods.Manager
	writer   *status.Writer
	objects  *objects.Store
	services *services
}

// follow watches pods and services until ctx ends. It begins when the node is known: pods are admitted by what it has,
// and a watch that begins before the API server is there pauses for seconds.
func (p *parts) follow(ctx context.Context, client kubernetes.Interface, node string) {
	select {
	case <-p.node.Known():
	case <-ctx.Done():
		return
	}
	var watching sync.WaitGroup
	if p.services != nil {
		watching.Go(func() { p.services.run(ctx) })
	}
	pods.Source(ctx, client, node, p.pods)
	watching.Wait()
}

func (k *Kubelet) assemble(ctx context.Context, client kubernetes.Interface, engine runtime.Engine, recorder record.EventRecorder) (*parts, error) {
	c := &k.config
	info, err := engine.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("container engine: %w", err)
	}
	virtual := info.Name == "hollow"
	addresses, hostIPs, err := k.addresses()
	if err != nil {
		return nil, err
	}
	podCIDRs, err := splitCIDRs(c.PodCIDR)
	if err != nil {
		return nil, fmt.Errorf("--pod-cidr %q: %w", c.PodCIDR, err)
	}
	reserved, err := reservedResources(c.SystemReserved, c.KubeReserved)
	if err != nil {
		return nil, err
	}
	var manager *pods.Manager
	p := &parts{writer: status.NewWriter(client)}
	p.node = node.New(node.Config{
		Client: client, Clock: k.clock, Engine: engine, Recorder: recorder, Name: k.name, Register: c.RegisterNode,
		Labels: c.NodeLabels, Taints: c.RegisterWithTaints, Unschedulable: !c.RegisterSchedulable, Addresses: addresses,
		Port: k.port(), ProviderID: c.ProviderID, PodCIDRs: podCIDRs, MaxPods: c.MaxPods, Reserved: reserved,
		RootDir: k.diskRoot(virtual), MaxImages: c.NodeStatusMaxImages, UpdateFrequency: c.NodeStatusUpdate,
		ReportFrequency: c.NodeStatusReport, LeaseSeconds: c.NodeLeaseSeconds, EngineGrace: engineGrace,
		Healthy: func() error { return manager.Healthy() },
	})
	p.objects = objects.New(ctx, client, func(uids []types.UID) { manager.Refresh(uids) })
	builder := k.builder(p, info, virtual)
	builder.NodeIPs, builder.Recorder = hostIPs, recorder
	if builder.LogMaxSize, err = dockerSize(c.ContainerLogMaxSize); err != nil {
		return nil, err
	}
	allowed, err := sysctls.New(c.AllowedUnsafeSysctls)
	if err != nil {
		return nil, err
	}
	config := pods.Config{
		Engine: engine, Builder: builder, Objects: p.objects, Status: p.writer, Recorder: recorder, Clock: k.clock,
		Hooks: &hooks.Runner{Streams: engine, Clock: k.clock, Version: version.DefaultKubeBinaryVersion},
		Images: &images.Puller{
			Images: engine, Secrets: p.objects, Clock: k.clock, Serialize: c.SerializeImagePulls,
			Limits: plan.Limits{Initial: firstBackoff, Max: maxImageBackoff},
		},
		Limits: plan.Limits{Initial: min(firstBackoff, c.MaxRestartPeriod), Max: c.MaxRestartPeriod},
		Node:   p.node.Current, FreshNode: p.node.Fetch, HostIPs: hostIPs, RuntimeName: info.Name, Resync: c.SyncFrequency, Relist: relistPeriod,
		NetworkReady: p.node.NetworkReady(), Sysctls: allowed,
	}
	if !virtual {
		if err := os.MkdirAll(c.RootDir, 0o750); err != nil {
			return nil, fmt.Errorf("--root-dir: %w", err)
		}
		config.Volumes = &volumes.Manager{
			Root: c.RootDir, Objects: p.objects, Tokens: volumes.NewTokens(client, k.clock), Clock: k.clock, Allocatable: p.node.Allocatable,
			MemoryLimit: func(pod *v1.Pod) int64 { return builder.PodLimits(pod).MemoryBytes },
		}
		builder.CheckResolvConf()
		config.HostPorts = hostports.Open()
		p.services = newServices(client)
		builder.Services = p.services.list
		config.Cgroups = k.cgroups(ctx, info)
		builder.Cgroups = config.Cgroups
	}
	manager = pods.New(config)
	p.pods = manager
	p.writer.Written = manager.Written
	return p, nil
}

func (k *Kubelet) builder(p *parts, info runtime.Info, virtual bool) *spec.Builder {
	c := &k.config
	return &spec.Builder{
		Root: c.RootDir, Objects: p.objects, Allocatable: p.node.Allocatable, MemoryBytes: info.MemoryBytes,
		PauseImage: c.PauseImage, ClusterDNS: c.ClusterDNS, ClusterDomain: c.ClusterDomain, ResolvConf: c.ResolvConf,
		SeccompDefault: c.SeccompDefault, CPUQuota: c.CPUCFSQuota, CPUPeriod: c.CPUCFSQuotaPeriod, PidsLimit: c.PodPidsLimit,
		LogMaxFiles: int(c.ContainerLogMaxFiles), Virtual: virtual,
		NodeRef: &v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: k.name, UID: types.UID(k.name)},
	}
}

// Timing of back-offs, of the relist that corrects what events missed, and of an engine that gives no answer.
const (
	firstBackoff    = 10 * time.Second
	maxImageBackoff = 5 * time.Minute
	relistPeriod    = 30 * time.Second
	engineGrace     = 30 * time.Second
	certificatePoll = 100 * time.Millisecond
)

func (k *Kubelet) diskRoot(virtual bool) string {
	if virtual {
		return ""
	}
	return k.config.RootDir
}

func (k *Kubelet) port() int32 {
	if k.config.Listener != nil {
		if addr, ok := k.config.Listener.Addr().(*net.TCPAddr); ok {
			return int32(addr.Port)
		}
	}
	if !k.config.EnableServer {
		return 0
	}
	return k.config.Port
}

// cgroups are control groups by quality of service, where they can be made.
func (k *Kubelet) cgroups(ctx context.Context, info runtime.Info) cgroups.Tree {
	if !k.config.CgroupsPerQOS {
		return cgroups.Tree{}
	}
	tree, err := cgroups.Detect("/sys/fs/cgroup", k.config.CgroupRoot, info.CgroupDriver == "systemd")
	if err != nil {
		klog.FromContext(ctx).Info("Control groups can't be made here: pods get the engine's own", "err", err)
	}
	return tree
}

func (k *Kubelet) engine(ctx context.Context) (runtime.Engine, func(), error) {
	c := &k.config
	if c.Engine != nil {
		return c.Engine, func() {}, nil
	}
	if c.Runtime == "hollow" {
		return hollow.New(hollow.Options{Clock: k.clock, CPUs: c.HollowCPUs, MemoryBytes: c.HollowMemory}), func() {}, nil
	}
	engine, err := docker.New(ctx, docker.Options{
		Endpoint: c.DockerEndpoint, Node: k.name, Network: c.PodNetwork, Bridge: c.PodBridge, Labels: c.DockerLabels,
	})
	if err != nil {
		return nil, nil, err
	}
	return engine, func() { _ = engine.Close() }, nil
}

func (k *Kubelet) recorder(ctx context.Context, client kubernetes.Interface) (record.EventRecorder, func()) {
	if k.config.Recorder != nil {
		return k.config.Recorder, func() {}
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx), record.WithCorrelatorOptions(record.CorrelatorOptions{
		QPS: float32(k.config.EventQPS), BurstSize: int(k.config.EventBurst), Clock: k.clock,
	}))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(eventScheme(), v1.EventSource{Component: "kubelet", Host: k.name})
	return recorder, broadcaster.Shutdown
}

func reservedResources(lists ...map[string]string) (v1.ResourceList, error) {
	total := v1.ResourceList{}
	for _, list := range lists {
		for name, text := range list {
			quantity, err := resource.ParseQuantity(text)
			if err != nil {
				return nil, fmt.Errorf("reserved %s=%s: %w", name, text, err)
			}
			sum := total[v1.ResourceName(name)]
			sum.Add(quantity)
			total[v1.ResourceName(name)] = sum
		}
	}
	return total, nil
}

// dockerSize turns a quantity into the bytes that Docker's log driver reads.
func dockerSize(text string) (string, error) {
	quantity, err := resource.ParseQuantity(text)
	if err != nil || quantity.Sign() <= 0 {
		return "", fmt.Errorf("--container-log-max-size %q: use a size such as 10Mi", text)
	}
	return fmt.Sprint(quantity.Value()), nil
}
