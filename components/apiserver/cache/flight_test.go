package cache

import "testing"

// TestFlightsSettle: when all is listed anew nobody waits for the events of writes that are done, but for those of writes that
// are under way.
func TestFlightsSettle(t *testing.T) {
	f := startMemory(t)
	fs := &f.pods.flights
	fs.begin("/registry/pods/a/done", pod("a", "done", ""), []byte("done")).land("/registry/pods/a/done", 7)
	fs.begin("/registry/pods/a/new", pod("a", "new", ""), []byte("new"))
	f.pods.install(nil, f.set.Revision())
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if len(fs.byKey) != 1 || fs.byKey["/registry/pods/a/new"] == nil {
		t.Errorf("%v", fs.byKey)
	}
}
