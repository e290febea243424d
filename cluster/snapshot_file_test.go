package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quintet.dev/quintet/cluster"
)

// TestSavedSnapshots: a cluster starts from a file, is put back to it, and has the users of the one that was saved.
func TestSavedSnapshots(t *testing.T) {
	t.Parallel()
	origin := up(t, cluster.WithStore(cluster.EmbeddedEtcd), cluster.WithNodes(0))
	put(t, origin, "past", "one")
	snapshot, err := origin.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "snapshot.tar")
	if err := snapshot.Save(file); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file with keys: %v, %v", info.Mode(), err)
	}
	loaded, err := cluster.LoadSnapshot(file)
	if err != nil {
		t.Fatal(err)
	}
	second, err := loaded.Start(t.Context(), cluster.InProcess(), cluster.WithStore(cluster.EmbeddedEtcd))
	if err != nil {
		t.Fatal(err)
	}
	stopped(t, second)
	if got := value(t, second, "past"); got != "one" {
		t.Errorf("started from the file: %q", got)
	}
	put(t, origin, "past", "two")
	if err := origin.Restore(t.Context(), loaded); err != nil {
		t.Fatal(err)
	}
	if got := value(t, origin, "past"); got != "one" {
		t.Errorf("put back to the file: %q", got)
	}
}

func TestSnapshotFilesThatAreNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{"empty": "", "other": "no archive at all", "absent": ""} {
		file := filepath.Join(dir, name)
		if name != "absent" {
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := cluster.LoadSnapshot(file); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := up(t, cluster.WithNodes(0))
	snapshot, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := snapshot.Save(filepath.Join(dir, "x")); err == nil || !strings.Contains(err.Error(), "memory") {
		t.Errorf("of a memory store: %v", err)
	}
}
