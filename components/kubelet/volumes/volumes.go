// Package volumes makes the volumes that pods mount. Each kind is a plug-in (plugin.go) in one list (list.go). What a
// pod claims is resolved to its persistent volume first (claims.go). What changes in the API is brought up to date in
// running pods.
package volumes

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// Objects are the config maps and secrets that pods refer to.
type Objects interface {
	ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
	Secret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// Manager makes and removes the volumes of a node's pods, below Root/pods/<uid>/volumes as upstream lays it out.
// It is safe for concurrent use by different pods.
type Manager struct {
	Root    string
	Objects Objects
	Tokens  *Tokens
	// TrustBundles and Certificates are nil where the feature gates of their projections are off.
	TrustBundles TrustBundles
	Certificates Certificates
	Clock        clock.PassiveClock
	// Allocatable is what the node has, the limit of containers that have none.
	Allocatable func() v1.ResourceList
	// MemoryLimit returns the memory limit of a pod, in bytes; 0 is no limit. nil: no pod has one.
	MemoryLimit func(*v1.Pod) int64
	// Client reads claims and persistent volumes, each by its name: that is all a node may read of them.
	Client kubernetes.Interface
	// Node returns the node as it is, nil while it is not known.
	Node func() *v1.Node
	// SaveImage gives the layers of an image, as "docker save" does; nil where image volumes can't be made.
	SaveImage func(ctx context.Context, id string) (io.ReadCloser, error)
	// Plugins are the kinds of volumes beyond those of this package.
	Plugins []Plugin

	mu      sync.Mutex
	mounted map[types.UID]map[string]mountedVolume // by name of the pod's volume

	images sync.Mutex // held while the directory of images is changed
}

// volumeDir is the directory of a volume in that of its pod.
func (m *Manager) volumeDir(s *Source, p Plugin) string {
	return filepath.Join(PodVolumes(m.Root, s.Pod.UID, p.Name()), s.Name())
}

// directory makes dir, in memory where that is asked for and the kubelet may mount. A directory without its mount is
// left over from before the machine was restarted.
func (m *Manager) directory(dir string, memory bool) error {
	if ready, err := present(dir, memory); ready || err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if memory {
		if err := mountMemory(dir, 0); err != nil && !errors.Is(err, os.ErrPermission) {
			return err
		}
	}
	return os.Chmod(dir, 0o777|os.ModeSticky)
}

// present tells that dir is there, and mounted if it lives in memory.
func present(dir string, memory bool) (bool, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if !memory {
		return true, nil
	}
	return isMountPoint(dir)
}

func fsGroup(pod *v1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

func (m *Manager) podDir(uid types.UID) string { return filepath.Join(m.Root, "pods", string(uid)) }

// Pods lists the pods that something was made for.
func (m *Manager) Pods() ([]types.UID, error) {
	entries, err := os.ReadDir(filepath.Join(m.Root, "pods"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	uids := make([]types.UID, 0, len(entries))
	for _, entry := range entries {
		uids = append(uids, types.UID(entry.Name()))
	}
	return uids, err
}
