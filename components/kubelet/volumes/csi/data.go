package csi

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/kubelet/volumes"
	"quintet.dev/quintet/internal/durable"
)

// pluginName is upstream's.
const pluginName = "kubernetes.io/csi"

// record is what is kept of a volume on the disk, in a file and with keys that upstream's kubelet reads, too.
type record struct {
	SpecVolID           string `json:"specVolID,omitempty"`
	VolumeHandle        string `json:"volumeHandle,omitempty"`
	DriverName          string `json:"driverName,omitempty"`
	NodeName            string `json:"nodeName,omitempty"`
	AttachmentID        string `json:"attachmentID,omitempty"`
	VolumeLifecycleMode string `json:"volumeLifecycleMode,omitempty"`
}

const recordFile = "vol_data.json"

func readRecord(dir string) (record, error) {
	var r record
	data, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("%s: %w", filepath.Join(dir, recordFile), err)
	}
	return r, nil
}

// write keeps the record in dir; a crash leaves the old file or the new one, and possibly a part that removeRecord
// removes.
func (r record) write(dir string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	return durable.ReplaceFile(filepath.Join(dir, recordFile), data, 0o600)
}

// removeRecord removes the record in dir, and what a kubelet left that ended while it wrote one.
func removeRecord(dir string) error {
	if err := removeDir(filepath.Join(dir, recordFile+durable.Suffix)); err != nil {
		return err
	}
	return removeDir(filepath.Join(dir, recordFile))
}

// layout is where the files of volumes are.
type layout struct{ root string }

// published is the directory of a pod's volume; the volume itself is mounted on "mount" in it.
func (l layout) published(uid types.UID, name string) string {
	return filepath.Join(volumes.PodVolumes(l.root, uid, pluginName), name)
}

// staged is the directory of a volume of the node; it is mounted on "globalmount" in it.
func (l layout) staged(driver, handle string) string {
	return filepath.Join(volumes.PluginDir(l.root, pluginName), driver, fmt.Sprintf("%x", sha256.Sum256([]byte(handle))))
}

func (l layout) devices() string {
	return filepath.Join(volumes.PluginDir(l.root, pluginName), "volumeDevices")
}

// stagedDevice is the directory that a driver prepares a block volume in.
func (l layout) stagedDevice(name string) string { return filepath.Join(l.devices(), "staging", name) }

// publishedDevice is the file that a driver makes the device of one pod.
func (l layout) publishedDevice(name string, uid types.UID) string {
	return filepath.Join(l.devices(), "publish", name, string(uid))
}

// deviceRecord is the directory of a block volume's record.
func (l layout) deviceRecord(name string) string { return filepath.Join(l.devices(), name, "data") }

// sweepDevice removes what is there of a block volume without a record. Another pod may be writing the record now: it
// tries again if its part is missing, and directories that are not empty stay.
func (l layout) sweepDevice(name string) {
	dir := l.deviceRecord(name)
	for _, path := range []string{filepath.Join(dir, recordFile+durable.Suffix), dir, filepath.Dir(dir)} {
		_ = os.Remove(path)
	}
}

// records are all volumes that are published to pods as file systems, by their directory. Those that can be read are
// returned with an error about the others.
func (l layout) records() (map[string]record, error) {
	files, err := filepath.Glob(filepath.Join(volumes.PodVolumes(l.root, "*", pluginName), "*", recordFile))
	if err != nil {
		return nil, err
	}
	found := make(map[string]record, len(files))
	var unreadable []error
	for _, file := range files {
		r, err := readRecord(filepath.Dir(file))
		if err == nil {
			found[filepath.Dir(file)] = r
		} else if !errors.Is(err, fs.ErrNotExist) {
			unreadable = append(unreadable, err)
		}
	}
	return found, errors.Join(unreadable...)
}

// deviceRecords are all block volumes of the node. Those that can be read are returned with an error about the others.
func (l layout) deviceRecords() ([]record, error) {
	files, err := filepath.Glob(filepath.Join(l.deviceRecord("*"), recordFile))
	if err != nil {
		return nil, err
	}
	var found []record
	var unreadable []error
	for _, file := range files {
		r, err := readRecord(filepath.Dir(file))
		if err == nil {
			found = append(found, r)
		} else if !errors.Is(err, fs.ErrNotExist) {
			unreadable = append(unreadable, err)
		}
	}
	return found, errors.Join(unreadable...)
}

// removeDir removes a file or an empty directory, or one that is gone.
func removeDir(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
