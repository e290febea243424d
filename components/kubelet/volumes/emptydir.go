package volumes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
)

// emptyDirs are directories that live as long as their pod
// (https://kubernetes.io/docs/concepts/storage/volumes/#emptydir).
type emptyDirs struct{ m *Manager }

// Name implements Plugin.
func (emptyDirs) Name() string { return "kubernetes.io/empty-dir" }

// Supports implements Plugin.
func (emptyDirs) Supports(s *Source) bool { return s.PV == nil && s.Volume.EmptyDir != nil }

// SetUp implements Plugin.
func (p emptyDirs) SetUp(_ context.Context, s *Source) (Mounted, error) {
	path, err := p.m.emptyDir(s.Pod, s.Volume)
	return Mounted{Path: path}, err
}

func (m *Manager) emptyDir(pod *v1.Pod, v *v1.Volume) (string, error) {
	dir := filepath.Join(m.podDir(pod.UID), "volumes", "kubernetes.io~empty-dir", v.Name)
	mounted := v.EmptyDir.Medium == v1.StorageMediumMemory || inHugePages(v.EmptyDir.Medium)
	if ready, err := present(dir, mounted); ready || err != nil {
		return dir, err
	}
	if !mounted && v.EmptyDir.Medium != v1.StorageMediumDefault {
		return "", fmt.Errorf("emptyDir medium %q is not supported: use \"\", \"Memory\" or \"HugePages\"", v.EmptyDir.Medium)
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
	if inHugePages(v.EmptyDir.Medium) {
		if err := hugeDir(pod, v.EmptyDir.Medium, dir); err != nil {
			_ = os.Remove(dir)
			return "", err
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

// hugeDir mounts huge pages on dir.
func hugeDir(pod *v1.Pod, medium v1.StorageMedium, dir string) error {
	size, err := pageSize(pod, medium)
	if err != nil {
		return err
	}
	if err := mountHugePages(dir, size); err != nil {
		return fmt.Errorf("mount huge pages: %w", err)
	}
	return nil
}

// memorySize is how large a volume in memory is, in bytes: no larger than what it asks for, what its pod may use, and
// what the node has for pods (KEP-1967). 0 leaves it to the kernel.
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
