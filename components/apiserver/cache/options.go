package cache

import (
	"iter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// Predicate chooses objects. Nil selectors choose all. The labels of Field are those of the hub: Kind.Fields,
// metadata.name and metadata.namespace; translating and refusing others is the caller's work.
type Predicate struct {
	Label labels.Selector
	Field fields.Selector
	// In is the version in which objects are matched against the selectors, where a webhook converts to it
	// (api.Custom.Remote).
	In *api.Version
}

// ListOptions are those of the API's list (https://kubernetes.io/docs/reference/using-api/api-concepts/), already
// validated (ValidateListOptions of apimachinery).
type ListOptions struct {
	Namespace            string // "" lists all
	ResourceVersion      string
	ResourceVersionMatch metav1.ResourceVersionMatch
	Limit                int64
	Continue             string
	Predicate            Predicate
}

// List is the answer to a list: a view that doesn't change.
type List struct {
	Revision int64
	// Entries are in the order of their keys.
	Entries   []*Entry
	Continue  string
	Remaining *int64

	cache *Cache // nil if a selector has chosen
}

// Meta returns the list's metadata.
func (l *List) Meta() metav1.ListMeta {
	m := metav1.ListMeta{Continue: l.Continue, RemainingItemCount: l.Remaining}
	if l.Revision != 0 { // a list of what is not stored has none
		m.ResourceVersion = formatRevision(l.Revision)
	}
	return m
}

// Bodies returns the encoded entries, for codec.List.
func (l *List) Bodies(f *Format) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, e := range l.Entries {
			body, err := e.Encoded(f)
			if !yield(body, err) || err != nil {
				return
			}
		}
	}
}

// WatchOptions are those of the API's watch, already validated.
type WatchOptions struct {
	// Behind is called when the watch ends because too many events were left lying; it must not wait. It may be nil.
	Behind          func()
	Namespace       string // "" watches all
	ResourceVersion string
	Predicate       Predicate
	// Bookmarks asks for BOOKMARK events from time to time, and once shortly before Deadline, at which the caller will
	// end the watch; the zero time is never.
	Bookmarks bool
	Deadline  time.Time
	// SendInitialEvents is as in the API: nil is the old behaviour (what exists comes first if ResourceVersion is "" or
	// "0"); true sends what exists and then a bookmark marked with k8s.io/initial-events-end; false sends only changes.
	SendInitialEvents *bool
}

// EventType is the type of a watch event, in the API's spelling.
type EventType string

// The types of events. A fault of a watch is no event: Watcher.Next returns it.
const (
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
	Bookmark EventType = "BOOKMARK"
)

// Event is one change as a watcher sees it through its predicate. For Deleted, the entry shows the last state that the
// watcher could see, at the resource version of the change. For Bookmark it is an empty object with a resource version
// and maybe the annotation that ends the initial events.
type Event struct {
	Type  EventType
	Entry *Entry

	undecided *change // in queues: what is to be found out about it takes time
}

// TTL says how long a written object lives; 0 is for ever.
type TTL = time.Duration

// Mutate makes the next state of an object from the current one, of which it may share memory but which it must not
// change. What it returns belongs to the cache from then on; to change nothing, it returns current.Object itself or an
// equal object. It may be called several times, and must not rely on current being the newest state: if it isn't, the
// write fails and Mutate is called again.
type Mutate func(current *Entry) (api.Object, error)
