package kubelet

import (
	"context"
	"errors"
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
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/cgroups"
	"quintet.dev/quintet/components/kubelet/eviction"
	"quintet.dev/quintet/components/kubelet/hooks"
	"quintet.dev/quintet/components/kubelet/hostports"
	"quintet.dev/quintet/components/kubelet/imagegc"
	"quintet.dev/quintet/components/kubelet/logs"
	"quintet.dev/quintet/components/kubelet/metrics"
	"quintet.dev/quintet/components/kubelet/node"
	"quintet.dev/quintet/components/kubelet/objects"
	"quintet.dev/quintet/components/kubelet/plan"
	"quintet.dev/quintet/components/kubelet/pods"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/runtime/cri"
	"quintet.dev/quintet/components/kubelet/runtime/docker"
	"quintet.dev/quintet/components/kubelet/runtime/hollow"
	"quintet.dev/quintet/components/kubelet/shutdown"
	"quintet.dev/quintet/components/kubelet/spec"
	"quintet.dev/quintet/components/kubelet/static"
	"quintet.dev/quintet/components/kubelet/status"
	"quintet.dev/quintet/components/kubelet/sysctls"
)

// Kubelet is one node's agent. Several may live in one process.
type Kubelet struct {
	config  Config
	flags   func() map[string]string // nil without any
	name    string
	clock   clock.WithTickerAndDelayedExecution
	metrics *metrics.Metrics
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
	flags := config.takeFlags()
	k := &Kubelet{config: config, flags: flags, name: strings.ToLower(strings.TrimSpace(name)), clock: config.Clock}
	if k.clock == nil {
		k.clock = clock.RealClock{}
	}
	k.metrics = metrics.New(k.name, k.config.FeatureGates)
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
	link, err := k.connect(ctx, group)
	if err != nil {
		return err
	}
	defer link.close()
	engine, closeEngine, err := k.engine(ctx)
	if err != nil {
		return err
	}
	defer closeEngine()
	parts, err := k.assemble(ctx, link, engine)
	if err != nil {
		return err
	}
	if k.config.EnableServer {
		if err := k.serve(ctx, group, link.client, engine, parts); err != nil {
			return err
		}
	}
	group.Go(func() error { return parts.node.Run(ctx) })
	group.Go(func() error { parts.writer.Run(ctx, statusWriters); return nil })
	group.Go(func() error { parts.pods.Run(ctx); return nil })
	group.Go(func() error { parts.manifests.Run(ctx); return nil })
	if parts.images != nil {
		group.Go(func() error { parts.images.Run(ctx); return nil })
	}
	if parts.eviction != nil {
		group.Go(func() error { parts.eviction.Run(ctx); return nil })
	}
	if parts.enforcer != nil {
		group.Go(func() error { parts.enforcer.run(ctx, k, parts.pods.ShareCPUs); return nil })
	}
	group.Go(func() error { parts.mirrors.Run(ctx); return nil })
	group.Go(func() error { parts.storage.run(ctx, parts.node.Known()); return nil })
	group.Go(func() error { parts.storage.followCertificates(ctx); return nil })
	group.Go(func() error { return parts.storage.serveDevices(ctx) })
	group.Go(func() error { return parts.storage.servePodResources(ctx) })
	group.Go(func() error { parts.follow(ctx, link); return nil })
	group.Go(func() error { return k.awaitShutdown(ctx, parts) })
	err = group.Wait()
	parts.objects.Close()
	if errors.Is(err, errShutdown) {
		return nil
	}
	return err
}

// statusWriters is how many statuses are sent at once.
const statusWriters = 10

// parts are the rooms of a kubelet, wired.
type parts struct {
	node      *node.Node
	pods      *pods.Manager
	writer    *status.Writer
	mirrors   *static.Mirrors
	manifests *static.Sources
	objects   *objects.Store
	eviction  *eviction.Manager  // nil for engines that simulate files
	images    *imagegc.Collector // nil for engines that simulate files
	services  *services          // nil where no container reads them
	storage   *storage           // nil for engines that simulate files
	enforcer  *enforcer          // nil without control groups
	cgroups   cgroups.Tree
	shutdown  *shutdown.Manager
	metrics   *metrics.Metrics
	// simulated is what there is not behind the engine's answers.
	simulated runtime.Simulated
}

// follow watches pods and services until ctx ends. It begins when the node is known: pods are admitted by what it has,
// and a watch that begins before the API server is there pauses for seconds.
func (p *parts) follow(ctx context.Context, l *link) {
	select {
	case <-p.node.Known():
	case <-ctx.Done():
		return
	}
	var watching sync.WaitGroup
	if p.services != nil {
		watching.Go(func() { p.services.run(ctx) })
	}
	pods.Follow(ctx, l.pods, p.pods, p.mirrors, p.manifests.Ready())
	watching.Wait()
}

func (k *Kubelet) assemble(ctx context.Context, l *link, engine runtime.Engine) (*parts, error) {
	c, client, recorder := &k.config, l.client, l.recorder
	info, err := engine.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("container engine: %w", err)
	}
	if err := c.checkCgroupDriver(info); err != nil {
		return nil, err
	}
	addresses, hostIPs, err := k.addresses(info.Simulated)
	if err != nil {
		return nil, err
	}
	podCIDRs, err := splitCIDRs(c.PodCIDR)
	if err != nil {
		return nil, fmt.Errorf("--pod-cidr %q: %w", c.PodCIDR, err)
	}
	reserved, err := c.reserved()
	if err != nil {
		return nil, err
	}
	machine, err := k.readMachine(info.Simulated)
	if err != nil {
		return nil, err
	}
	var manager *pods.Manager
	p := &parts{writer: status.NewWriter(client, k.clock), simulated: info.Simulated, metrics: k.metrics}
	p.writer.Slots = l.writes
	p.node = node.New(node.Config{
		Client: client, Watch: l.node, Clock: k.clock, Engine: engine, Recorder: recorder, Name: k.name,
		Register: c.RegisterNode, Labels: c.NodeLabels, Taints: c.RegisterWithTaints, Unschedulable: !c.RegisterSchedulable,
		Addresses: addresses,
		Port:      k.port(), ProviderID: c.ProviderID, PodCIDRs: podCIDRs, MaxPods: c.MaxPods, Reserved: reserved.total(),
		Bounds: machine.bounds, HugePages: machine.hugePages, SwapBytes: machine.swap,
		RootDir: k.diskRoot(info.Simulated), MaxImages: c.NodeStatusMaxImages, UpdateFrequency: c.NodeStatusUpdate,
		ReportFrequency: c.NodeStatusReport, LeaseSeconds: c.NodeLeaseSeconds, EngineGrace: engineGrace,
		Healthy:      func() error { return errors.Join(manager.Healthy(), p.shutdown.Err()) },
		Withheld:     k.withheld(info.Simulated),
		Pressure:     func() []v1.NodeConditionType { return p.pressure() },
		Devices:      func() (has, free v1.ResourceList) { return p.storage.deviceCapacity() },
		ResetDevices: func() bool { return p.storage.resetDevices() },
		ReportSlots:  l.reports,
		VolumesInUse: func() []v1.UniqueVolumeName { return p.storage.volumesInUse() },
	})
	if err := p.node.CheckReserved(info); err != nil {
		return nil, err
	}
	capacity := p.node.Capacity(info)
	p.mirrors = static.NewMirrors(client, p.writer, p.node.Current)
	p.objects = objects.New(client, l.objects, func(uids []types.UID) { manager.Refresh(uids) })
	builder := k.builder(p, info, capacity.Memory().Value())
	builder.SwapBytes = machine.swap
	builder.NodeIPs, builder.Recorder = hostIPs, recorder
	if builder.LogMaxSize, err = dockerSize(c.ContainerLogMaxSize); err != nil {
		return nil, err
	}
	allowed, err := sysctls.New(c.AllowedUnsafeSysctls)
	if err != nil {
		return nil, err
	}
	config := pods.Config{
		Engine: engine, Builder: builder, Objects: p.objects, Status: p.mirrors, Recorder: recorder, Clock: k.clock,
		Hooks:  &hooks.Runner{Streams: engine, Clock: k.clock, Version: version.DefaultKubeBinaryVersion},
		Images: k.puller(engine, p),
		Limits: plan.Limits{Initial: min(firstBackoff, c.MaxRestartPeriod), Max: c.MaxRestartPeriod},
		Node:   p.node.Current, FreshNode: p.node.Fetch, HostIPs: hostIPs, RuntimeName: info.Name,
		Resync: c.SyncFrequency, Relist: relistPeriod,
		Pressure: p.pressure, NetworkReady: p.node.NetworkReady(), Sysctls: allowed,
		Metrics: k.metrics, Turns: l.turns,
	}
	if !info.Simulated.Files {
		if p.storage, err = k.newStorage(ctx, client, engine, p, builder, recorder); err != nil {
			return nil, err
		}
		if err := k.keepImages(ctx, client, engine, config.Images, p, recorder); err != nil {
			return nil, err
		}
		config.Volumes, config.Devices, config.Claims = p.storage.volumes, p.storage.devices, p.storage.claims
		builder.CheckResolvConf()
		if config.Logs, err = k.logs(engine); err != nil {
			return nil, err
		}
	}
	if !info.Simulated.Network {
		config.HostPorts = hostports.Open()
	}
	if !info.Simulated.Processes {
		p.services = newServices(client)
		builder.Services, builder.RuntimeHandler = p.services.list, p.services.handler
		p.cgroups = k.cgroups(ctx)
		config.Cgroups, builder.Cgroups = p.cgroups, p.cgroups
		if builder.KillTogether, err = c.killTogether(config.Cgroups); err != nil {
			return nil, err
		}
		if p.enforcer, err = k.newEnforcer(config.Cgroups, capacity, machine.bounds, reserved, recorder); err != nil {
			return nil, err
		}
	}
	config.ShuttingDown = func() error { return p.shutdown.Err() }
	manager = pods.New(config)
	p.pods = manager
	p.shutdown = k.newShutdown(p, recorder)
	k.metrics.Count(manager.List)
	p.manifests = static.NewSources(static.Config{
		Node: k.name, Path: c.PodManifestPath, FileEvery: c.FileCheckFrequency, URL: c.ManifestURL,
		Header: c.ManifestURLHeader, URLEvery: c.HTTPCheckFrequency, Runner: manager, Mirrors: p.mirrors,
		Recorder: recorder, Clock: k.clock,
	})
	if !info.Simulated.Files {
		if p.eviction, err = k.newEviction(p, recorder); err != nil {
			return nil, err
		}
	}
	p.writer.Written = manager.Written
	return p, nil
}

func (k *Kubelet) builder(p *parts, info runtime.Info, memory int64) *spec.Builder {
	c := &k.config
	return &spec.Builder{
		Root: c.RootDir, Objects: p.objects, Allocatable: p.node.Allocatable, MemoryBytes: memory,
		PauseImage: c.PauseImage, ClusterDNS: c.ClusterDNS, ClusterDomain: c.ClusterDomain, ResolvConf: c.ResolvConf,
		SeccompDefault: c.SeccompDefault, CPUQuota: c.CPUCFSQuota, CPUPeriod: c.CPUCFSQuotaPeriod,
		PidsLimit: c.PodPidsLimit, LimitedSwap: c.SwapBehavior == limitedSwap,
		LogMaxFiles: int(c.ContainerLogMaxFiles), Simulated: info.Simulated,
		RecursiveReadOnly: info.RecursiveReadOnly, StrictGroups: info.StrictGroups,
		AppArmor:    appArmorEnabled(appArmorFile),
		StopSignals: c.FeatureGates[stopSignals],
		NodeRef:     &v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: k.name, UID: types.UID(k.name)},
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

// diskRoot is a directory on the node's disk, "" where there is none.
func (k *Kubelet) diskRoot(simulated runtime.Simulated) string {
	if simulated.Files {
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
func (k *Kubelet) cgroups(ctx context.Context) cgroups.Tree {
	if !k.config.CgroupsPerQOS {
		return cgroups.Tree{}
	}
	tree, err := cgroups.Detect(cgroupMount, k.config.CgroupRoot)
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
	switch c.engineKind() {
	case "hollow":
		return hollow.New(hollow.Options{Clock: k.clock, CPUs: c.HollowCPUs, MemoryBytes: c.HollowMemory}),
			func() {}, nil
	case "cri":
		engine, err := cri.New(ctx, cri.Options{
			Endpoint: c.criEndpoint(), ImageEndpoint: c.CRIImageEndpoint, Node: k.name, LogDir: c.PodLogsDir,
			ProfileDir: filepath.Join(c.RootDir, "seccomp-of-containers"), CgroupDriver: c.CgroupDriver,
			Observe: k.metrics.Operation,
		})
		if err != nil {
			return nil, nil, err
		}
		return engine, func() { _ = engine.Close() }, nil
	}
	engine, err := docker.New(ctx, docker.Options{
		Endpoint: c.DockerEndpoint, Node: k.name, Network: c.PodNetwork, Bridge: c.PodBridge, Labels: c.DockerLabels,
		PullProgressDeadline: c.ImagePullProgressDeadline,
		Observe:              k.metrics.Operation,
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
	recorder := broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: "kubelet", Host: k.name})
	return recorder.WithLogger(klog.FromContext(ctx)), broadcaster.Shutdown
}

// logs writes the logs of containers as files.
func (k *Kubelet) logs(engine runtime.Engine) (*logs.Manager, error) {
	size, err := resource.ParseQuantity(k.config.ContainerLogMaxSize)
	if err != nil {
		return nil, fmt.Errorf("--container-log-max-size: %w", err)
	}
	files, _ := engine.(runtime.LogFiles)
	return &logs.Manager{
		Source: engine, Files: files, Dir: k.config.PodLogsDir, Links: filepath.Join(systemLogDir, "containers"),
		MaxBytes: size.Value(), MaxFiles: int(k.config.ContainerLogMaxFiles), Clock: k.clock,
	}, nil
}

// dockerSize converts a quantity into the bytes that Docker's log driver reads.
func dockerSize(text string) (string, error) {
	quantity, err := resource.ParseQuantity(text)
	if err != nil || quantity.Sign() <= 0 {
		return "", fmt.Errorf("--container-log-max-size %q: use a size such as 10Mi", text)
	}
	return fmt.Sprint(quantity.Value()), nil
}
