package cache

import (
	"fmt"
	"testing"
	"time"
)

// TestFlightsSettle: when all is listed again, events of completed writes are no longer expected, but those of writes
// in progress are.
func TestFlightsSettle(t *testing.T) {
	f := startMemory(t)
	fs := &f.pods.ownWrites.pending
	fs.begin("/registry/pods/a/done", pod("a", "done", ""), []byte("done")).complete("/registry/pods/a/done", 7)
	fs.begin("/registry/pods/a/new", pod("a", "new", ""), []byte("new"))
	f.pods.state.install(nil, f.set.Revision())
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if len(fs.byKey) != 1 || fs.byKey["/registry/pods/a/new"] == nil {
		t.Errorf("%v", fs.byKey)
	}
}

// TestLanded: a reader that waits for this server's writes sees them, and doesn't wait for more, or twice for an event
// that never comes.
func TestLanded(t *testing.T) {
	f := startMemory(t)
	for i := range 200 {
		name := fmt.Sprint("p", i)
		f.create("a", name, "")
		f.pods.WaitForOwnWrites(f.ctx)
		if _, ok := f.pods.Peek(f.pods.Key("a", name)); !ok {
			t.Fatalf("%s is not there", name)
		}
		if f.pods.WaitForOwnWrites(f.ctx) {
			t.Fatal("waited for nothing")
		}
		f.remove("a", name)
		f.pods.WaitForOwnWrites(f.ctx)
		if _, ok := f.pods.Peek(f.pods.Key("a", name)); ok {
			t.Fatalf("%s is still there", name)
		}
	}
	f.pods.set.timeout = time.Millisecond
	f.pods.ownWrites.newest.Store(1 << 40) // as in a store that went back
	if !f.pods.WaitForOwnWrites(f.ctx) || f.pods.WaitForOwnWrites(f.ctx) {
		t.Error("not waited once")
	}
}
