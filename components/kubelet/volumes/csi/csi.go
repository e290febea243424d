package csi

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	events "k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/volumes"
)

// Plugin makes volumes by CSI drivers. It is safe for concurrent use.
type Plugin struct {
	Root     string // the kubelet's directory
	NodeName string
	Client   kubernetes.Interface
	Objects  volumes.Objects
	Tokens   *volumes.Tokens
	Drivers  *Drivers
	Clock    clock.WithTicker
	Recorder events.EventRecorder
	// UseChanged, if set, is called when VolumesInUse has changed.
	UseChanged func()

	mu        sync.Mutex
	published map[publishKey]bool // since the kubelet started
	inUse     map[v1.UniqueVolumeName]bool
	locks     keyedLocks
}

// publishKey is a volume of a pod.
type publishKey struct {
	pod  types.UID
	name string
}

// volume is a volume of a driver, as a pod or a persistent volume describes it.
type volume struct {
	*volumes.Source
	driver     *storagev1.CSIDriver // nil if there is no such object
	driverName string
	handle     string
	fsType     string
	attributes map[string]string
	inline     bool
	mode       v1.PersistentVolumeAccessMode

	publishSecret, stageSecret, expandSecret *v1.SecretReference
}

// Name implements volumes.Plugin.
func (*Plugin) Name() string { return pluginName }

// Supports implements volumes.Plugin.
func (*Plugin) Supports(s *volumes.Source) bool {
	return s.PV == nil && s.Volume.CSI != nil || s.PV != nil && s.PV.Spec.CSI != nil
}

// SupportsMountOptions implements volumes.MountOptioner.
func (*Plugin) SupportsMountOptions() bool { return true }

// describe reads what there is to know of a volume.
func (p *Plugin) describe(ctx context.Context, s *volumes.Source) (*volume, error) {
	v := &volume{Source: s, mode: v1.ReadWriteOnce}
	if s.PV != nil {
		source := s.PV.Spec.CSI
		v.driverName, v.handle, v.fsType = source.Driver, source.VolumeHandle, source.FSType
		v.attributes = source.VolumeAttributes
		v.publishSecret, v.stageSecret = source.NodePublishSecretRef, source.NodeStageSecretRef
		v.expandSecret = source.NodeExpandSecretRef
		if len(s.PV.Spec.AccessModes) > 0 {
			v.mode = s.PV.Spec.AccessModes[0]
		}
	} else {
		source := s.Volume.CSI
		v.inline, v.driverName, v.attributes = true, source.Driver, source.VolumeAttributes
		v.handle = inlineHandle(s.Pod.UID, s.Volume.Name)
		if source.FSType != nil {
			v.fsType = *source.FSType
		}
		if source.NodePublishSecretRef != nil {
			v.publishSecret = &v1.SecretReference{Name: source.NodePublishSecretRef.Name, Namespace: s.Pod.Namespace}
		}
	}
	driver, err := p.Client.StorageV1().CSIDrivers().Get(ctx, v.driverName, metav1.GetOptions{})
	switch {
	case err == nil:
		v.driver = driver
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("kubernetes.io/csi: read CSIDriver %s: %w", v.driverName, err)
	}
	return v, v.checkLifecycle()
}

// inlineHandle is the handle of a volume that lives and ends with its pod.
func inlineHandle(pod types.UID, name string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(string(pod)+name)))
}

// lifecycle is the mode in which the driver is used.
func (v *volume) lifecycle() storagev1.VolumeLifecycleMode {
	if v.inline {
		return storagev1.VolumeLifecycleEphemeral
	}
	return storagev1.VolumeLifecyclePersistent
}

// checkLifecycle refuses a driver that is not made for such volumes. One without an object is made for persistent ones.
func (v *volume) checkLifecycle() error {
	modes := []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	if v.driver != nil && len(v.driver.Spec.VolumeLifecycleModes) > 0 {
		modes = v.driver.Spec.VolumeLifecycleModes
	}
	if slices.Contains(modes, v.lifecycle()) {
		return nil
	}
	return fmt.Errorf("kubernetes.io/csi: mounter.SetUpAt failed to check volume lifecycle mode: volume mode %q not "+
		"supported by driver %s (only supports %q)", v.lifecycle(), v.driverName, modes)
}

// uniqueName is the volume's name in the node's status.
func (v *volume) uniqueName() v1.UniqueVolumeName { return uniqueName(v.driverName, v.handle) }

func uniqueName(driver, handle string) v1.UniqueVolumeName {
	return v1.UniqueVolumeName(pluginName + "/" + driver + "^" + handle)
}

// key locks what happens to one volume of the node.
func (v *volume) key() string { return v.driverName + "^" + v.handle }

// recordOf is what is kept of the volume on the disk.
func (p *Plugin) recordOf(v *volume) record {
	r := record{
		SpecVolID: v.Name(), VolumeHandle: v.handle, DriverName: v.driverName, NodeName: p.NodeName,
		VolumeLifecycleMode: string(v.lifecycle()),
	}
	if v.attached() {
		r.AttachmentID = attachmentName(v.handle, v.driverName, p.NodeName)
	}
	return r
}

// capability describes how the volume is used, for a driver of such abilities.
func (v *volume) capability(able abilities, group string) *csispec.VolumeCapability {
	capability := &csispec.VolumeCapability{
		AccessMode: &csispec.VolumeCapability_AccessMode{Mode: accessMode(v.mode, able)},
	}
	if v.Block {
		capability.AccessType = &csispec.VolumeCapability_Block{Block: &csispec.VolumeCapability_BlockVolume{}}
		return capability
	}
	capability.AccessType = &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{
		FsType: v.fsType, MountFlags: v.MountOptions(), VolumeMountGroup: group,
	}}
	return capability
}

func accessMode(mode v1.PersistentVolumeAccessMode, able abilities) csispec.VolumeCapability_AccessMode_Mode {
	fine := able[csispec.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER]
	switch {
	case mode == v1.ReadOnlyMany:
		return csispec.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	case mode == v1.ReadWriteMany:
		return csispec.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	case mode == v1.ReadWriteOncePod && fine:
		return csispec.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	case mode == v1.ReadWriteOnce && fine:
		return csispec.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	default:
		return csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	}
}

// secret reads what a driver is given; nil for none.
func (p *Plugin) secret(ctx context.Context, ref *v1.SecretReference) (map[string]string, error) {
	if ref == nil {
		return nil, nil
	}
	object, err := p.Objects.Secret(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return nil, fmt.Errorf("fetching secret %s/%s failed: %w", ref.Namespace, ref.Name, err)
	}
	secrets := make(map[string]string, len(object.Data))
	for key, value := range object.Data {
		secrets[key] = string(value)
	}
	return secrets, nil
}

// keyedLocks are locks by name.
type keyedLocks struct {
	mu   sync.Mutex
	held map[string]*keyedLock
}

type keyedLock struct {
	sync.Mutex
	users int
}

// with calls act while it holds the lock of key.
func (l *keyedLocks) with(key string, act func() error) error {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[string]*keyedLock{}
	}
	lock := l.held[key]
	if lock == nil {
		lock = &keyedLock{}
		l.held[key] = lock
	}
	lock.users++
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if lock.users--; lock.users == 0 {
			delete(l.held, key)
		}
	}()
	lock.Lock()
	defer lock.Unlock()
	return act()
}
