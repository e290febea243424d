package checks

import (
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

func object(uid string, version int) metav1.Object {
	return &metav1.ObjectMeta{Name: uid, Namespace: "shop", UID: types.UID(uid), ResourceVersion: strconv.Itoa(version)}
}

// told checks an error: none where want is empty, else one with these words.
func told(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestAcknowledged(t *testing.T) {
	for name, test := range map[string]struct {
		listed []metav1.Object
		want   string
	}{
		"all there":     {[]metav1.Object{object("a", 7), object("b", 5), object("other", 1)}, ""},
		"written since": {[]metav1.Object{object("a", 9), object("b", 5)}, ""},
		"gone":          {[]metav1.Object{object("a", 7)}, "shop/b is gone"},
		"older":         {[]metav1.Object{object("a", 4), object("b", 5)}, "shop/a is at 4"},
	} {
		t.Run(name, func(t *testing.T) {
			var a Acknowledged
			for _, obj := range []metav1.Object{object("a", 4), object("a", 7), object("b", 5)} {
				if err := a.Wrote(obj); err != nil {
					t.Fatal(err)
				}
			}
			lost := a.Lost(test.listed)
			var err error
			if len(lost) > 0 {
				err = lost[0]
			}
			told(t, err, test.want)
			if a.Len() != 2 {
				t.Errorf("%d objects", a.Len())
			}
		})
	}
}

func TestWatches(t *testing.T) {
	at := func(kind watch.EventType, uid string, version int) Event {
		e, err := EventOf(kind, object(uid, version))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	added, modified := at(watch.Added, "a", 2), at(watch.Modified, "a", 3)
	deleted, later := at(watch.Deleted, "a", 4), at(watch.Added, "a", 5)
	all := []Event{added, modified, deleted, later}
	for name, test := range map[string]struct {
		events          []Event
		order, complete string
	}{
		"all":         {all, "", ""},
		"the start":   {all[:2], "", ""},
		"lost":        {[]Event{added, deleted}, "", "event 1 is DELETED"},
		"reordered":   {[]Event{modified, added}, "comes after one at 3", "event 0"},
		"twice":       {[]Event{added, added}, "comes after one at 2", "event 1"},
		"added again": {[]Event{added, at(watch.Added, "a", 3)}, "added again", "event 1"},
		"invented":    {append(all[:4:4], at(watch.Added, "b", 9)), "", "never happened"},
	} {
		t.Run(name, func(t *testing.T) {
			told(t, Order(1, test.events), test.order)
			told(t, Complete(all, test.events), test.complete)
		})
	}
}

func TestEqual(t *testing.T) {
	list := []metav1.Object{object("a", 1), object("b", 2)}
	told(t, Equal([]metav1.Object{object("b", 2), object("a", 1)}, list), "")
	told(t, Equal(list[:1], list), "lacks shop/b")
	told(t, Equal([]metav1.Object{object("a", 1), object("b", 1)}, list), "shop/b at 1, the list at 2")
	told(t, Equal(append(list[:2:2], object("c", 3)), list), "shop/c at 3, which is gone")
}
