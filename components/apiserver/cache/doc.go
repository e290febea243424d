// Package cache keeps every stored object in memory, as the store has it, and answers all reads and watches from there;
// writes go through it to the store and are seen by each read that follows.
//
// One watch over the whole of the store's prefix feeds all resources (Set). That makes the revision of every resource
// that of the store: a consistent read asks the store for its revision, once for all reads that wait at that moment,
// and finds the cache there already or a few events behind, where a watch per resource would have to ask etcd for
// progress on each of them. It costs the server one stream and one list at start, however many kinds there are.
//
// A resource (Cache) is a copy-on-write B-tree of entries, a ring of its last events, and its watchers. An entry is one
// version of one object, shared by all; it is encoded at most once per format.
package cache
