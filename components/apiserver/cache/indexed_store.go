package cache

import (
	"github.com/tidwall/btree"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// tree is entries by key, and by (value, key) for each index.
type tree struct {
	items   *btree.BTreeG[*Entry]
	indexes []*btree.BTreeG[indexed]
	by      []index // what indexes are of
}

type index struct {
	field string
	value func(api.Object) string
}

type indexed struct {
	value string
	entry *Entry
}

func newTree(by []index) tree {
	t := tree{by: by, items: btree.NewBTreeGOptions(func(a, b *Entry) bool { return a.Key < b.Key },
		btree.Options{NoLocks: true})}
	for range by {
		t.indexes = append(t.indexes, btree.NewBTreeGOptions(func(a, b indexed) bool {
			if a.value != b.value {
				return a.value < b.value
			}
			return a.entry.Key < b.entry.Key
		}, btree.Options{NoLocks: true}))
	}
	return t
}

// copy shares all nodes that don't change.
func (t *tree) copy() tree {
	out := tree{items: t.items.Copy(), by: t.by}
	for _, index := range t.indexes {
		out.indexes = append(out.indexes, index.Copy())
	}
	return out
}

// indexedStore is a tree together with what is counted of its entries: indexes, bytes and versions always tell of the
// entries that are in it, and of no others.
type indexedStore struct {
	tree
	bytes    int64                       // of the entries, in the store
	versions map[schema.GroupVersion]int // how many entries are in which version; nil if that is always the same
	sought   *Entry                      // by get: has the key alone
}

// newIndexedStore makes an empty store. Only custom resources lie in memory in several versions.
func newIndexedStore(by []index, custom bool) indexedStore {
	s := indexedStore{tree: newTree(by), sought: &Entry{}}
	if custom {
		s.versions = map[schema.GroupVersion]int{}
	}
	return s
}

func (s *indexedStore) get(key string) (*Entry, bool) {
	s.sought.Key = key
	return s.items.Get(s.sought)
}

// load puts an entry whose key comes after all others.
func (s *indexedStore) load(e *Entry) {
	s.items.Load(e)
	s.enter(e)
}

// put puts an entry, in the place of the one that had its key, which is returned.
func (s *indexedStore) put(e *Entry) (prev *Entry) {
	if prev, _ = s.items.Set(e); prev != nil {
		s.leave(prev)
	}
	s.enter(e)
	return prev
}

// remove returns what was removed, if there was anything.
func (s *indexedStore) remove(key string) (prev *Entry) {
	if prev, _ = s.items.Delete(&Entry{Key: key}); prev != nil {
		s.leave(prev)
	}
	return prev
}

// enter takes an entry that was put into the tree into all that is derived from it; leave takes it out.
func (s *indexedStore) enter(e *Entry) {
	s.bytes += int64(e.size)
	s.count(e, 1)
	for i := range s.by {
		s.indexes[i].Set(indexed{s.by[i].value(e.Object), e})
	}
}

func (s *indexedStore) leave(e *Entry) {
	s.bytes -= int64(e.size)
	s.count(e, -1)
	for i := range s.by {
		s.indexes[i].Delete(indexed{s.by[i].value(e.Object), e})
	}
}

func (s *indexedStore) count(e *Entry, by int) {
	if s.versions != nil {
		s.versions[e.Object.GetObjectKind().GroupVersionKind().GroupVersion()] += by
	}
}

// allIn tells whether all entries are in this version.
func (s *indexedStore) allIn(version schema.GroupVersion) bool {
	return s.versions[version] == s.items.Len()
}
