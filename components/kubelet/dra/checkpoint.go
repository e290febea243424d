package dra

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/internal/durable"
)

// checkpointFile is what is kept of claims. The checksum is of the bytes of Data.
type checkpointFile struct {
	Data     json.RawMessage
	Checksum uint32
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// Open reads the checkpoint: which claims pods used before the kubelet was restarted.
func (m *Manager) Open() error {
	m.Drivers.changed = m.healthChanged
	m.calling, m.claims = make(chan struct{}, 1), map[types.NamespacedName]*Claim{}
	content, err := os.ReadFile(m.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var file checkpointFile
	if err := json.Unmarshal(content, &file); err != nil {
		return fmt.Errorf("checkpoint %s: %w", m.File, err)
	}
	if file.Checksum != checksum(file.Data) {
		return fmt.Errorf("checkpoint %s is corrupted", m.File)
	}
	var claims []*Claim
	if err := json.Unmarshal(file.Data, &claims); err != nil {
		return fmt.Errorf("checkpoint %s: %w", m.File, err)
	}
	for _, claim := range claims {
		m.claims[claim.key()] = claim
	}
	return nil
}

// save writes the checkpoint; it is called with the lock held.
func (m *Manager) save() error {
	claims := slices.SortedFunc(maps.Values(m.claims), func(a, b *Claim) int { return cmp.Compare(a.UID, b.UID) })
	data, err := json.Marshal(claims)
	if err != nil {
		return err
	}
	content, err := json.Marshal(checkpointFile{Data: data, Checksum: checksum(data)})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(m.File), 0o750); err != nil {
		return fmt.Errorf("checkpoint ResourceClaim state: %w", err)
	}
	if err := durable.ReplaceFile(m.File, content, 0o600); err != nil {
		return fmt.Errorf("checkpoint ResourceClaim state: %w", err)
	}
	return nil
}

func checksum(data []byte) uint32 {
	hash := fnv.New32a()
	_, _ = hash.Write(data)
	return hash.Sum32()
}
