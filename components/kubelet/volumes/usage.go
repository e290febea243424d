package volumes

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// block is the unit that file systems count in, whatever they allocate.
const block = 512

// Used is how many bytes a pod's emptyDir or configMap takes where it lies; what has several names counts once.
func (m *Manager) Used(uid types.UID, v *v1.Volume) (int64, error) {
	plugin := "kubernetes.io~empty-dir"
	if v.ConfigMap != nil {
		plugin = "kubernetes.io~configmap"
	}
	seen := map[uint64]bool{}
	var used int64
	err := filepath.WalkDir(filepath.Join(m.podDir(uid), "volumes", plugin, v.Name), func(_ string, entry fs.DirEntry,
		err error) error {
		if err == nil {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil {
				if stat, ok := info.Sys().(*syscall.Stat_t); ok && !seen[stat.Ino] {
					seen[stat.Ino] = true
					used += stat.Blocks * block
				}
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the pod keeps running
		}
		return err
	})
	return used, err
}
