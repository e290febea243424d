package volumes

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Source is a volume of a pod together with what is behind its claim. Plug-ins do not change it.
type Source struct {
	Pod    *v1.Pod
	Volume *v1.Volume                // as the pod names it
	Claim  *v1.PersistentVolumeClaim // nil for a volume that the pod itself describes
	PV     *v1.PersistentVolume      // nil likewise
	// ReadOnly tells that the pod's volume, not only a mount of it, is read-only.
	ReadOnly bool
	// Block tells that containers get the volume as a device.
	Block bool
}

// Name is the volume's name in events and directories: that of the persistent volume if there is one.
func (s *Source) Name() string {
	if s.PV != nil {
		return s.PV.Name
	}
	return s.Volume.Name
}

// MountOptions are those of the persistent volume.
func (s *Source) MountOptions() []string {
	if s.PV == nil {
		return nil
	}
	if text := s.PV.Annotations[v1.MountOptionAnnotation]; text != "" {
		return strings.Split(text, ",")
	}
	return s.PV.Spec.MountOptions
}

// FSGroup is the group that owns the pod's volumes, nil if the pod names none.
func (s *Source) FSGroup() *int64 { return fsGroup(s.Pod) }

// Mounted is where a volume is on the node.
type Mounted struct {
	// Path is a directory or file, or the device if Block says so.
	Path  string
	Block bool
	// ReadOnly tells that no container may write to it.
	ReadOnly bool
	// Fixed tells that a subPath that is missing is not made.
	Fixed bool
}

// Plugin makes one kind of volumes. Methods may be called concurrently for different volumes; those of one pod are
// made one after the other.
type Plugin interface {
	// Name is upstream's name of the plug-in, such as "kubernetes.io/empty-dir".
	Name() string
	// Supports tells whether the plug-in makes this volume.
	Supports(*Source) bool
	// SetUp makes the volume for its pod, or brings it up to date: it is called again while the pod runs and after a
	// restart of the kubelet or the machine. Fails wraps the errors of other steps than the last.
	SetUp(context.Context, *Source) (Mounted, error)
}

// BlockPlugin is a Plugin whose volumes can be devices.
type BlockPlugin interface {
	// SetUpDevice is SetUp for a source that is a block volume.
	SetUpDevice(context.Context, *Source) (Mounted, error)
}

// MountOptioner is a Plugin that applies the mount options of persistent volumes. The options of others are errors.
type MountOptioner interface{ SupportsMountOptions() bool }

// Releaser is a Plugin that has more to do at a pod's end than to unmount and remove its directories. What is to be
// released is read from the pod's directory, as neither the pod nor what the kubelet knew of it may be there any more.
type Releaser interface {
	TearDown(ctx context.Context, uid types.UID) error
}

// Failure is an error of one step of making a volume.
type Failure struct {
	// Step is upstream's name of it, such as "MountVolume.SetUp".
	Step   string
	Volume string
	Err    error
}

// The steps that fail with events of their own.
const (
	stepSetUp     = "MountVolume.SetUp failed"
	stepDevice    = "MapVolume.SetUpDevice failed"
	StepInit      = "MountVolume.NewMounter initialization failed"
	StepAffinity  = "MountVolume.NodeAffinity check failed"
	StepOptions   = "MountVolume.MountOptionSupport check failed"
	StepAttach    = "MountVolume.WaitForAttach failed"
	StepStage     = "MountVolume.MountDevice failed"
	StepMapAttach = "MapVolume.WaitForAttach failed"
	StepMap       = "MapVolume.MapPodDevice failed"
	StepExpand    = "NodeExpandVolume.NodeExpandVolume failed"
)

// Fails wraps the error of a step; nil stays nil.
func Fails(step string, err error) error {
	if err == nil {
		return nil
	}
	return &Failure{Step: step, Err: err}
}

// Error is the message of the event.
func (f *Failure) Error() string {
	return fmt.Sprintf("%s for volume %q : %v", f.Step, f.Volume, f.Err)
}

// Unwrap returns the error without its step.
func (f *Failure) Unwrap() error { return f.Err }

// failure names the volume of an error, and its step if the plug-in named none.
func failure(s *Source, err error) error {
	var step *Failure
	if errors.As(err, &step) {
		return &Failure{Step: step.Step, Volume: s.Name(), Err: step.Err}
	}
	if s.Block {
		return &Failure{Step: stepDevice, Volume: s.Name(), Err: err}
	}
	return &Failure{Step: stepSetUp, Volume: s.Name(), Err: err}
}

// Reason is the reason of the event about an error of Mount.
func Reason(err error) string {
	var step *Failure
	if errors.As(err, &step) && strings.HasPrefix(step.Step, "MapVolume") {
		return "FailedMapVolume"
	}
	if errors.As(err, &step) && step.Step == StepExpand {
		return "VolumeResizeFailed"
	}
	return "FailedMount"
}

// escape makes the name of a plug-in one element of a path.
func escape(plugin string) string { return strings.ReplaceAll(plugin, "/", "~") }

// PodVolumes is the directory of a pod's volumes of one plug-in.
func PodVolumes(root string, uid types.UID, plugin string) string {
	return filepath.Join(root, "pods", string(uid), "volumes", escape(plugin))
}

// PodDevices is the directory of the links to a pod's block volumes of one plug-in.
func PodDevices(root string, uid types.UID, plugin string) string {
	return filepath.Join(root, "pods", string(uid), "volumeDevices", escape(plugin))
}

// PluginDir is the directory that a plug-in has on the node, for what does not belong to one pod.
func PluginDir(root, plugin string) string { return filepath.Join(root, "plugins", plugin) }
