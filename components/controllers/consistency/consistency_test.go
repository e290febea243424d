package consistency

import (
	"errors"
	"testing"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/internal/reconcile"
)

// TestWrites: a key waits until all informers have come to the latest writes, and only that key.
func TestWrites(t *testing.T) {
	now, skips := map[string]string{Pods: "10", "jobs": "7"}, 0
	read := func(resource string) func() string { return func() string { return now[resource] } }
	w := newWrites(map[string]func() string{Pods: read(Pods), "jobs": read("jobs")}, func() { skips++ })
	want := func(step, key string, seen bool) {
		t.Helper()
		before := skips
		err := w.Seen(key)
		if (err == nil) != seen || err != nil && !errors.Is(err, reconcile.ErrStale) {
			t.Errorf("%s: %v", step, err)
		}
		if skipped := skips > before; skipped == seen {
			t.Errorf("%s: counted %d skips", step, skips-before)
		}
	}
	want("nothing written", "a", true)
	w.Wrote("a", "u1", Pods, "12")
	w.Wrote("a", "u1", Pods, "11") // answers come in any order
	w.Wrote("a", "u1", "jobs", "9")
	want("neither seen", "a", false)
	want("another key", "b", true)
	now[Pods] = "11"
	want("not the last", "a", false)
	now[Pods] = "100"
	want("not the job", "a", false)
	now["jobs"] = "9"
	want("both seen", "a", true)

	w.Wrote("a", "u1", Pods, "200")
	w.Forget("a", "u2")
	want("another object was forgotten", "a", false)
	w.Wrote("a", "u2", "jobs", "8")
	want("another object of the name", "a", true)

	w.Wrote("a", "u2", Pods, "300")
	w.Forget("a", "")
	want("forgotten", "a", true)

	now["jobs"] = "200"
	w.Wrote("a", "u2", Pods, "300")
	w.Wrote("a", "u2", "jobs", "301")
	want("not seen", "a", false)
	now[Pods] = "50" // restored
	want("went back, but not the jobs", "a", false)
	now["jobs"] = "40"
	want("both went back", "a", true)

	w.Wrote("a", "u2", Pods, "not a number")
	want("can't be compared", "a", true)
}

// TestStaleReads: a controller may read what is stale.
func TestStaleReads(t *testing.T) {
	w := New(runner.Env{StaleReads: true}, "job_controller", nil)
	w.Wrote("a", "u", Pods, "1000")
	if err := w.Seen("a"); w != nil || err != nil {
		t.Error(w, err)
	}
	w.Forget("a", "u")
}
