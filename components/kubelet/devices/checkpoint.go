package devices

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"quintet.dev/quintet/internal/durable"
)

// checkpointName is the name of the checkpoint file, as upstream's.
const checkpointName = "kubelet_internal_checkpoint"

// checkpoint is the file. The checksum is of the bytes of Data.
type checkpoint struct {
	Data     json.RawMessage
	Checksum uint64
}

type checkpointData struct {
	PodDeviceEntries  []podEntry
	RegisteredDevices map[string][]string // healthy ones
}

// podEntry is one allocation. Its devices are by NUMA node, -1 for none.
type podEntry struct {
	PodUID        types.UID
	ContainerName string
	ResourceName  string
	DeviceIDs     map[int64][]string
	AllocResp     []byte
}

// savedState is what a checkpoint says.
type savedState struct {
	pods      podDevices
	resources []string
}

func (m *Manager) checkpointFile() string { return filepath.Join(m.Dir, checkpointName) }

// save writes the checkpoint; it is called with the lock held. An error is logged: the allocation is true all the same.
func (m *Manager) save() {
	if err := m.write(); err != nil {
		klog.FromContext(context.Background()).Error(err, "Failed to write the checkpoint of devices")
	}
}

func (m *Manager) write() error {
	data := checkpointData{RegisteredDevices: map[string][]string{}}
	for name, r := range m.resources {
		data.RegisteredDevices[name] = sortedKeys(r.healthy())
	}
	for _, uid := range sortedKeys(m.pods) {
		for _, container := range sortedKeys(m.pods[uid]) {
			for _, name := range sortedKeys(m.pods[uid][container]) {
				a := m.pods[uid][container][name]
				response, err := proto.Marshal(a.Response)
				if err != nil {
					return err
				}
				data.PodDeviceEntries = append(data.PodDeviceEntries, podEntry{
					PodUID: uid, ContainerName: container, ResourceName: name, DeviceIDs: m.byNode(name, a.IDs),
					AllocResp: response,
				})
			}
		}
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return err
	}
	file, err := json.Marshal(checkpoint{Data: raw, Checksum: checksum(raw)})
	if err != nil {
		return err
	}
	if bytes.Equal(file, m.saved) {
		return nil
	}
	if err := durable.ReplaceFile(m.checkpointFile(), file, 0o600); err != nil {
		return err
	}
	m.saved = file
	return nil
}

// byNode sorts devices by their first NUMA node.
func (m *Manager) byNode(name string, ids []string) map[int64][]string {
	nodes := map[int64][]string{}
	for _, id := range ids {
		node := int64(-1)
		if d := m.device(name, id); len(d.NUMANodes) > 0 {
			node = d.NUMANodes[0]
		}
		nodes[node] = append(nodes[node], id)
	}
	return nodes
}

func checksum(data []byte) uint64 {
	hash := fnv.New32a()
	_, _ = hash.Write(data)
	return uint64(hash.Sum32())
}

// readCheckpoint reads the file; found is false if there is none.
func readCheckpoint(path string) (saved savedState, found bool, err error) {
	saved.pods = podDevices{}
	file, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return saved, false, nil
	}
	if err != nil {
		return saved, false, err
	}
	var c checkpoint
	if err := json.Unmarshal(file, &c); err != nil {
		return saved, true, fmt.Errorf("checkpoint %s: %w", path, err)
	}
	if checksum(c.Data) != c.Checksum {
		return saved, true, fmt.Errorf("checkpoint %s is corrupted", path)
	}
	var data checkpointData
	if err := json.Unmarshal(c.Data, &data); err != nil {
		return saved, true, fmt.Errorf("checkpoint %s: %w", path, err)
	}
	for _, entry := range data.PodDeviceEntries {
		a := &allocation{Response: &pluginapi.ContainerAllocateResponse{}}
		if err := proto.Unmarshal(entry.AllocResp, a.Response); err != nil {
			return saved, true, fmt.Errorf("checkpoint %s: %w", path, err)
		}
		for _, ids := range entry.DeviceIDs {
			a.IDs = append(a.IDs, ids...)
		}
		slices.Sort(a.IDs)
		saved.pods.set(entry.PodUID, entry.ContainerName, entry.ResourceName, a)
	}
	saved.resources = sortedKeys(data.RegisteredDevices)
	return saved, true, nil
}
