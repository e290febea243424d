package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"quintet.dev/quintet/components/kubelet/devices"
	"quintet.dev/quintet/components/kubelet/dra"
	"quintet.dev/quintet/components/kubelet/pluginwatcher"
	"quintet.dev/quintet/components/kubelet/podcertificates"
	"quintet.dev/quintet/components/kubelet/podresources"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/spec"
	"quintet.dev/quintet/components/kubelet/trustbundles"
	"quintet.dev/quintet/components/kubelet/volumes"
	"quintet.dev/quintet/components/kubelet/volumes/csi"
)

// storage is what makes the volumes of a node's pods, and what finds the drivers that it needs for some of them.
type storage struct {
	volumes *volumes.Manager
	csi     *csi.Plugin
	objects *csi.NodeObjects
	plugins *pluginwatcher.Watcher
	devices *devices.Manager
	claims  *dra.Manager
	// bundles and certificates are nil where the feature gates of their projections are off.
	bundles      *trustbundles.Bundles
	certificates *podcertificates.Manager
	// podResources tells monitoring agents at podResourcesSocket which devices pods have.
	podResources       *podresources.Server
	podResourcesSocket string
}

// newStorage makes the directory of pods and what fills it.
func (k *Kubelet) newStorage(ctx context.Context, client kubernetes.Interface, engine runtime.Engine, p *parts,
	builder *spec.Builder, recorder record.EventRecorder) (*storage, error) {
	root := k.config.RootDir
	if err := os.MkdirAll(root, 0o750); err != nil {
		return nil, fmt.Errorf("--root-dir: %w", err)
	}
	if err := volumes.ShareMounts(root); err != nil {
		return nil, fmt.Errorf("error configuring root directory: %w", err)
	}
	tokens := volumes.NewTokens(client, k.clock)
	s := &storage{objects: &csi.NodeObjects{Client: client, Clock: k.clock, Name: k.name, Node: p.node.Current}}
	drivers := &csi.Drivers{Publish: s.objects.Publish, Withdraw: s.objects.Withdraw}
	s.csi = &csi.Plugin{
		Root: root, NodeName: k.name, Client: client, Objects: p.objects, Tokens: tokens, Drivers: drivers,
		Clock: k.clock, Recorder: recorder, UseChanged: p.node.ReportNow,
	}
	if err := s.csi.Restore(); err != nil { // no reason to leave the other pods alone
		klog.FromContext(ctx).Error(err, "Volumes of an earlier run can't be read")
	}
	s.plugins = &pluginwatcher.Watcher{
		Dir: filepath.Join(root, "plugins_registry"), Clock: k.clock,
		Handlers: map[string]pluginwatcher.Handler{registerapi.CSIPlugin: drivers},
	}
	s.devices = &devices.Manager{
		Dir: filepath.Join(root, "device-plugins"), Clock: k.clock, CapacityChanged: p.node.ReportNow,
		HealthChanged: func(uid types.UID) { p.pods.Wake(uid) },
	}
	s.devices.Open(ctx)
	s.plugins.Handlers[registerapi.DevicePlugin] = devices.Handler{Manager: s.devices}
	s.claims = &dra.Manager{
		Client: client, File: filepath.Join(root, "dra_manager_state"),
		Drivers:       &dra.Drivers{Client: client, Clock: k.clock, Node: k.name},
		HealthChanged: func(uid types.UID) { p.pods.Wake(uid) },
	}
	if err := s.claims.Open(); err != nil {
		return nil, fmt.Errorf("create ResourceClaim cache (remove the file to forget what was prepared): %w", err)
	}
	s.podResources = &podresources.Server{
		Pods: func() []*v1.Pod { return p.pods.List() }, Devices: s.devices, Claims: s.claims,
	}
	s.podResourcesSocket = filepath.Join(root, "pod-resources", "kubelet.sock")
	s.plugins.Handlers[registerapi.DRAPlugin] = s.claims.Drivers
	s.volumes = &volumes.Manager{
		Root: root, Objects: p.objects, Tokens: tokens, Clock: k.clock, Allocatable: p.node.Allocatable,
		MemoryLimit: func(pod *v1.Pod) int64 { return builder.PodLimits(pod).MemoryBytes },
		Client:      client, Node: p.node.Current, Plugins: []volumes.Plugin{s.csi},
	}
	if saver, able := engine.(runtime.ImageSaver); able {
		s.volumes.SaveImage = saver.SaveImage
	}
	k.projectCertificates(s, client, p, recorder)
	return s, nil
}

// projectCertificates has volumes project what the feature gates let them.
func (k *Kubelet) projectCertificates(s *storage, client kubernetes.Interface, p *parts,
	recorder record.EventRecorder) {
	if k.config.FeatureGates[trustBundles] {
		s.bundles = trustbundles.New(client, func() { p.pods.Refresh(projecting(p.pods.List())) })
		s.volumes.TrustBundles = s.bundles
	}
	if k.config.FeatureGates[podCertificates] {
		s.certificates = podcertificates.New(podcertificates.Config{
			Client: client, Clock: k.clock, Recorder: recorder, NodeName: k.name, Node: p.node.Current,
			Changed: func(uid types.UID) { p.pods.Refresh([]types.UID{uid}) },
		})
		s.volumes.Certificates = s.certificates
		p.metrics.Registry.MustRegister(podcertificates.Metrics(s.certificates))
	}
}

// projecting are the pods that project ClusterTrustBundles.
func projecting(list []*v1.Pod) []types.UID {
	var out []types.UID
	for _, pod := range list {
		if slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
			return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources,
				func(s v1.VolumeProjection) bool { return s.ClusterTrustBundle != nil })
		}) {
			out = append(out, pod.UID)
		}
	}
	return out
}

// followCertificates gets trust bundles and certificates of pods until ctx ends. A nil storage has none.
func (s *storage) followCertificates(ctx context.Context) {
	if s == nil {
		return
	}
	var work sync.WaitGroup
	if s.bundles != nil {
		work.Go(func() { s.bundles.Run(ctx) })
	}
	if s.certificates != nil {
		work.Go(func() { s.certificates.Run(ctx) })
	}
	work.Wait()
}

// volumesInUse are the volumes that must not be detached from the node.
func (s *storage) volumesInUse() []v1.UniqueVolumeName {
	if s == nil {
		return nil
	}
	return s.csi.VolumesInUse()
}

// deviceCapacity is what device plug-ins have on the node, and what of it pods may have.
func (s *storage) deviceCapacity() (capacity, allocatable v1.ResourceList) {
	if s == nil {
		return nil, nil
	}
	return s.devices.Capacity()
}

// resetDevices tells that the extended resources of an earlier node status are not true any more.
func (s *storage) resetDevices() bool { return s != nil && s.devices.ResetCapacity() }

// serveDevices takes device plug-ins in until ctx ends. A nil storage has none.
func (s *storage) serveDevices(ctx context.Context) error {
	if s == nil {
		return nil
	}
	return s.devices.Run(ctx)
}

// servePodResources serves the pod-resources API until ctx ends. A nil storage has none.
func (s *storage) servePodResources(ctx context.Context) error {
	if s == nil {
		return nil
	}
	return s.podResources.Run(ctx, s.podResourcesSocket)
}

// run finds drivers once the node is known, until ctx ends. A nil storage has none.
func (s *storage) run(ctx context.Context, known <-chan struct{}) {
	if s == nil {
		return
	}
	select {
	case <-known:
	case <-ctx.Done():
		return
	}
	s.objects.Ensure(ctx)
	s.claims.Drivers.Start(ctx)
	s.plugins.Run(ctx)
	s.claims.Drivers.Close()
}
