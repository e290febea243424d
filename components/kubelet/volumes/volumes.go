// Package volumes makes the directories that pods mount: emptyDir, configMap, secret, downwardAPI, projected and
// hostPath. What changes in the API is brought up to date in running pods.
package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
	Clock   clock.PassiveClock
	// Allocatable is what the node has, the limit of containers that have none.
	Allocatable func() v1.ResourceList
	// MemoryLimit is how much memory a pod may use, in bytes; 0 is no bound. nil knows of none.
	MemoryLimit func(*v1.Pod) int64
}

// Mount makes the volumes of pod, or brings them up to date, and returns the path of each on the node. pod's
// status holds its addresses as far as they are known.
func (m *Manager) Mount(ctx context.Context, pod *v1.Pod) (map[string]string, error) {
	paths := make(map[string]string, len(pod.Spec.Volumes))
	var failures []error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		path, err := m.mount(ctx, pod, v)
		if err != nil {
			failures = append(failures, fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", v.Name, err))
			continue
		}
		paths[v.Name] = path
	}
	return paths, errors.Join(failures...)
}

func (m *Manager) mount(ctx context.Context, pod *v1.Pod, v *v1.Volume) (string, error) {
	switch {
	case v.HostPath != nil:
		return hostPath(v.HostPath)
	case v.EmptyDir != nil:
		return m.emptyDir(pod, v)
	case v.ConfigMap != nil, v.Secret != nil, v.DownwardAPI != nil, v.Projected != nil:
		return m.files(ctx, pod, v)
	default:
		return "", errors.New("this kind of volume is not supported: use emptyDir, configMap, secret, downwardAPI, projected or hostPath")
	}
}

// files writes a volume that is made of API objects.
func (m *Manager) files(ctx context.Context, pod *v1.Pod, v *v1.Volume) (string, error) {
	payload, err := m.payload(ctx, pod, v)
	if err != nil {
		return "", err
	}
	plugin := "kubernetes.io~projected"
	switch {
	case v.ConfigMap != nil:
		plugin = "kubernetes.io~configmap"
	case v.Secret != nil:
		plugin = "kubernetes.io~secret"
	case v.DownwardAPI != nil:
		plugin = "kubernetes.io~downward-api"
	}
	dir := filepath.Join(m.podDir(pod.UID), "volumes", plugin, v.Name)
	if err := m.directory(dir, v.ConfigMap == nil); err != nil {
		return "", err
	}
	w := writer{dir: dir, group: fsGroup(pod), now: m.Clock.Now}
	return dir, w.write(payload)
}

// directory makes dir, in memory where that is asked for and the kubelet may mount. A directory without its mount is left
// over from before the machine was restarted.
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

func (m *Manager) emptyDir(pod *v1.Pod, v *v1.Volume) (string, error) {
	dir := filepath.Join(m.podDir(pod.UID), "volumes", "kubernetes.io~empty-dir", v.Name)
	if ready, err := present(dir, v.EmptyDir.Medium == v1.StorageMediumMemory); ready || err != nil {
		return dir, err
	}
	switch v.EmptyDir.Medium {
	case v1.StorageMediumDefault, v1.StorageMediumMemory:
	default:
		return "", fmt.Errorf("emptyDir medium %q is not supported: use \"\" or \"Memory\"", v.EmptyDir.Medium)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if v.EmptyDir.Medium == v1.StorageMediumMemory {
		if err := mountMemory(dir, m.memorySize(pod, v.EmptyDir)); err != nil {
			_ = os.Remove(dir)
			return "", fmt.Errorf("mount memory: %w", err)
		}
	}
	mode := 0o777 | os.ModeDir
	if v.EmptyDir.Medium == v1.StorageMediumMemory {
		mode |= os.ModeSticky // as the kernel makes it
	}
	if err := os.Chmod(dir, mode); err != nil {
		return "", err
	}
	if group := fsGroup(pod); group != nil {
		if err := os.Chown(dir, -1, int(*group)); err != nil {
			return "", err
		}
		return dir, os.Chmod(dir, mode|os.ModeSetgid)
	}
	return dir, nil
}

// memorySize is how large a volume in memory is, in bytes: no larger than what it asks for, what its pod may use, and what the node
// has for pods (KEP-1967). 0 leaves it to the kernel.
func (m *Manager) memorySize(pod *v1.Pod, dir *v1.EmptyDirVolumeSource) int64 {
	var bounds []int64
	if m.Allocatable != nil {
		memory := m.Allocatable()[v1.ResourceMemory]
		bounds = append(bounds, memory.Value())
	}
	if m.MemoryLimit != nil {
		bounds = append(bounds, m.MemoryLimit(pod))
	}
	if dir.SizeLimit != nil {
		bounds = append(bounds, dir.SizeLimit.Value())
	}
	var size int64
	for _, bound := range bounds {
		if bound > 0 && (size == 0 || bound < size) {
			size = bound
		}
	}
	return size
}

func fsGroup(pod *v1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

func (m *Manager) podDir(uid types.UID) string { return filepath.Join(m.Root, "pods", string(uid)) }

// Remove deletes everything that was made on the node for a pod.
func (m *Manager) Remove(uid types.UID) error {
	if uid == "" || !filepath.IsLocal(string(uid)) {
		return fmt.Errorf("pod UID %q is no name of a directory", uid)
	}
	dir := m.podDir(uid)
	if err := unmountBelow(dir); err != nil {
		return err
	}
	if m.Tokens != nil {
		m.Tokens.Forget(uid)
	}
	return os.RemoveAll(dir)
}

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
