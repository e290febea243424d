package cache

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	testclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// TestDirectWatches: those of a resource that upstream reads from its store are told of no progress, may go on from
// long ago, and learn in the store's words from when on they may not.
func TestDirectWatches(t *testing.T) {
	clock := testclock.NewFakeClock(time.Unix(1_000_000_000, 0))
	for _, direct := range []bool{false, true} {
		f := start(t, memory.New(clock),
			Config{Clock: clock, Events: 3 * fewEvents, Direct: func(*api.Kind) bool { return direct }})
		before := f.create("a", "x", "").Revision
		for i := range 2 * fewEvents {
			f.create("a", fmt.Sprint("y", i), "")
		}
		f.list(ListOptions{})
		clock.Step(time.Hour)
		f.create("a", "z", "")
		f.list(ListOptions{})
		w, err := f.pods.Watch(f.ctx, WatchOptions{ResourceVersion: fmt.Sprint(before), Bookmarks: true})
		if !direct {
			if !apierrors.IsResourceExpired(err) {
				t.Errorf("a watch from long ago: %v", err)
			}
			continue
		}
		f.must(err)
		if events, err := w.Next(f.ctx); err != nil || len(events) != 2*fewEvents+1 || w.timer != nil {
			t.Errorf("got %d events, %v", len(events), err)
		}
		w.Close()
		for i := range fewEvents {
			f.create("b", fmt.Sprint("y", i), "")
		}
		f.list(ListOptions{})
		_, err = f.pods.Watch(f.ctx, WatchOptions{ResourceVersion: fmt.Sprint(before)})
		if !apierrors.IsResourceExpired(err) ||
			err.Error() != "The resourceVersion for the provided watch is too old." {
			t.Errorf("a watch from before all that is remembered: %v", err)
		}
	}
}

// TestDirectFaults: what is read from the store has other answers than what is read from a cache, in tokens, too.
func TestDirectFaults(t *testing.T) {
	for _, direct := range []bool{false, true} {
		f := start(t, memory.New(nil), Config{Direct: func(*api.Kind) bool { return direct }})
		f.create("a", "x", "")
		before := f.create("a", "y", "").Revision
		f.create("a", "z", "")
		_, err := f.pods.Get(f.ctx, f.pods.Key("a", "x"), "z")
		if apierrors.IsBadRequest(err) != direct ||
			direct && !strings.HasPrefix(err.Error(), "invalid resource version: resourceVersion: Invalid value") {
			t.Errorf("direct %v: got at no version: %v", direct, err)
		}
		want := map[bool]string{false: `"/x\u0000"`, true: `"x\u0000"`}[direct]
		// which the cache has no state of, but upstream's has
		for _, version := range []string{"", fmt.Sprint(before)} {
			l := f.list(ListOptions{Namespace: "a", Limit: 1, ResourceVersion: version})
			if text, err := base64.RawURLEncoding.DecodeString(l.Continue); err != nil ||
				!strings.Contains(string(text), want) {
				t.Errorf("direct %v: token at %q: %s, %v", direct, version, text, err)
			}
		}
		if !direct {
			continue
		}
		for _, initial := range []bool{false, true} {
			if initial {
				_, err = f.pods.Watch(f.ctx,
					WatchOptions{ResourceVersion: "99999999999999999", SendInitialEvents: &initial})
			} else {
				_, err = f.pods.List(f.ctx, ListOptions{ResourceVersion: "99999999999999999"})
			}
			if seconds, _ := apierrors.SuggestsClientDelay(err); !isTooLarge(err) || (seconds > 0) != initial {
				t.Errorf("initial events %v: %v, after %d seconds", initial, err, seconds)
			}
		}
	}
}
