package etcd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
)

// revisionBump is how far a restored member's revision lies beyond that of its snapshot, as upstream recommends, so
// that clients never meet a revision twice (https://etcd.io/docs/v3.6/op-guide/recovery/#restoring-with-revision-bump).
const revisionBump = 1_000_000_000

// Restore makes the data directory of a member from a snapshot before the member starts.
type Restore struct {
	// Snapshot is a file as `etcdctl snapshot save` writes it, which is removed once the directory is made from it. If
	// there is none, nothing happens.
	Snapshot string
	DataDir  string
	// Name, PeerURL and InitialCluster are the member's, by its flags.
	Name, PeerURL, InitialCluster string
}

// Run replaces what is in the directory. Killed at any instant, it begins again the next time.
func (r Restore) Run() error {
	if _, err := os.Stat(r.Snapshot); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := r.replace(); err != nil {
		return fmt.Errorf("restore etcd from %s: %w", r.Snapshot, err)
	}
	return os.Remove(r.Snapshot)
}

func (r Restore) replace() error {
	made := filepath.Join(r.DataDir, "restoring") // on the same file system, so that it can be renamed
	if err := os.RemoveAll(made); err != nil {
		return err
	}
	defer os.RemoveAll(made)
	if err := os.MkdirAll(r.DataDir, 0o700); err != nil {
		return err
	}
	err := snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: r.Snapshot, OutputDataDir: made, Name: r.Name, PeerURLs: []string{r.PeerURL},
		InitialCluster: r.InitialCluster, InitialClusterToken: "etcd-cluster",
		RevisionBump: revisionBump, MarkCompacted: true,
	})
	if err != nil {
		return err
	}
	member := filepath.Join(r.DataDir, "member")
	if err := os.RemoveAll(member); err != nil {
		return err
	}
	return os.Rename(filepath.Join(made, "member"), member)
}
