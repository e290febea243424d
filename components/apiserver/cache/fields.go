package cache

import (
	"hash/maphash"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/kinds"
)

// fieldSets are the encoded field sets of managed fields: a good part of what a small object holds, and the same in all
// objects that were made alike. Nobody changes them in place, so such objects share one.
type fieldSets struct {
	mu    sync.Mutex
	known map[uint64]*metav1.FieldsV1
	size  int
}

// Bounds of what is remembered for sharing, in bytes: of one set and of all. When there is more, all is forgotten; those
// who share a set go on to do so.
const (
	maxFieldSet  = 8 << 10
	maxFieldSets = 1 << 20
)

// share gives obj, which nobody else has yet, the field sets that equal objects have. Its managed fields may be those of
// another object, so they are replaced, not changed.
func (f *fieldSets) share(obj kinds.Object) {
	entries := obj.GetManagedFields()
	cloned := false
	for i := range entries {
		set := f.shared(entries[i].FieldsV1)
		if set == entries[i].FieldsV1 {
			continue
		}
		if !cloned {
			entries, cloned = slices.Clone(entries), true
		}
		entries[i].FieldsV1 = set
	}
	if cloned {
		obj.SetManagedFields(entries)
	}
}

func (f *fieldSets) shared(set *metav1.FieldsV1) *metav1.FieldsV1 {
	if set == nil {
		return nil
	}
	raw := set.GetRawBytes()
	if len(raw) == 0 || len(raw) > maxFieldSet {
		return set
	}
	sum := maphash.Bytes(seed, raw)
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.known[sum]; known != nil && known.Equal(*set) {
		return known
	}
	if f.known == nil || f.size+len(raw) > maxFieldSets {
		f.known, f.size = map[uint64]*metav1.FieldsV1{}, 0
	}
	f.known[sum] = set
	f.size += len(raw)
	return set
}
