// Package checks finds what no fault may cause, in what a test recorded beside the fault: acknowledged writes that are
// gone, watches that lose, repeat or reorder, and informers that differ from a list. It works on any cluster.
package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Acknowledged are the writes that an API server acknowledged. The zero value is ready; it is safe for concurrent use.
type Acknowledged struct {
	mu       sync.Mutex
	versions map[types.UID]int64
	names    map[types.UID]string
}

// Wrote notes that a create or an update returned obj without an error. An object that is deleted must not be noted.
func (a *Acknowledged) Wrote(obj metav1.Object) error {
	version, err := versionOf(obj)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.versions == nil {
		a.versions, a.names = map[types.UID]int64{}, map[types.UID]string{}
	}
	a.versions[obj.GetUID()] = max(version, a.versions[obj.GetUID()])
	a.names[obj.GetUID()] = name(obj)
	return nil
}

// Len is the number of objects.
func (a *Acknowledged) Len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.versions)
}

// Lost tells which writes are not in a list that was made after them: objects that are gone or older.
func (a *Acknowledged) Lost(listed []metav1.Object) []error {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := map[types.UID]int64{}
	var lost []error
	for _, obj := range listed {
		version, err := versionOf(obj)
		if err != nil {
			lost = append(lost, err)
			continue
		}
		found[obj.GetUID()] = version
	}
	for uid, version := range a.versions {
		switch has, there := found[uid]; {
		case !there:
			lost = append(lost, fmt.Errorf("%s is gone: its write was acknowledged at %d", a.names[uid], version))
		case has < version:
			lost = append(lost, fmt.Errorf("%s is at %d: a write was acknowledged at %d", a.names[uid], has, version))
		}
	}
	slices.SortFunc(lost, func(x, y error) int { return cmp.Compare(x.Error(), y.Error()) })
	return lost
}

// Event is what a watch delivered.
type Event struct {
	Type    watch.EventType
	UID     types.UID
	Name    string
	Version int64
}

// EventOf is the event as it is checked.
func EventOf(kind watch.EventType, obj metav1.Object) (Event, error) {
	version, err := versionOf(obj)
	return Event{Type: kind, UID: obj.GetUID(), Name: name(obj), Version: version}, err
}

// Order checks the events of one watch from a version on, without bookmarks: each is later than the one before, an
// object is added before it is modified or deleted, and only once.
func Order(from int64, events []Event) error {
	added := map[types.UID]bool{}
	for i, e := range events {
		if e.Version <= from {
			return fmt.Errorf("event %d, %s of %s at %d, comes after one at %d", i, e.Type, e.Name, e.Version, from)
		}
		from = e.Version
		if e.Type == watch.Added && added[e.UID] {
			return fmt.Errorf("event %d: %s is added again at %d", i, e.Name, e.Version)
		}
		added[e.UID] = e.Type != watch.Deleted
	}
	return nil
}

// Complete checks that the events of a watch are all of those of another that watched from the same version on: a
// reference that no fault disturbed, or what the store tells. The watch may have seen less of the end.
func Complete(reference, events []Event) error {
	for i, e := range events {
		if i == len(reference) {
			return fmt.Errorf("event %d, %s of %s at %d, never happened", i, e.Type, e.Name, e.Version)
		}
		if e != reference[i] {
			return fmt.Errorf("event %d is %s of %s at %d, and should be %s of %s at %d", i, e.Type, e.Name, e.Version,
				reference[i].Type, reference[i].Name, reference[i].Version)
		}
	}
	return nil
}

// Equal compares what an informer has with a list, when all is quiet: the same objects at the same versions. It returns
// the first difference.
func Equal(informer, listed []metav1.Object) error {
	has := map[types.UID]metav1.Object{}
	for _, obj := range informer {
		has[obj.GetUID()] = obj
	}
	for _, obj := range listed {
		own, ok := has[obj.GetUID()]
		if !ok {
			return fmt.Errorf("the informer lacks %s at %s", name(obj), obj.GetResourceVersion())
		}
		if own.GetResourceVersion() != obj.GetResourceVersion() {
			return fmt.Errorf("the informer has %s at %s, the list at %s", name(obj), own.GetResourceVersion(),
				obj.GetResourceVersion())
		}
		delete(has, obj.GetUID())
	}
	for _, obj := range has {
		return fmt.Errorf("the informer has %s at %s, which is gone", name(obj), obj.GetResourceVersion())
	}
	return nil
}

func versionOf(obj metav1.Object) (int64, error) {
	version, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resource version of %s: %w", name(obj), err)
	}
	return version, nil
}

func name(obj metav1.Object) string {
	if obj.GetNamespace() == "" {
		return obj.GetName()
	}
	return obj.GetNamespace() + "/" + obj.GetName()
}
