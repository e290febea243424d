package inprocess

import (
	"errors"
	"os"
	"path/filepath"

	"quintet.dev/quintet/cluster/owner"
)

const (
	dirPrefix = "quintet-"
	// ownerFile names the process whose cluster has a directory.
	ownerFile = "owner"
)

// makeDir makes the directory of a cluster's files in parent. It says whose it is, so that others remove it when this
// process was killed.
func makeDir(parent, cluster string) (string, error) {
	self, err := owner.Self()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(parent, dirPrefix+cluster+"-")
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, ownerFile), []byte(self), 0o600); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

// removeStale removes the directories in parent whose process has certainly ended. Those that can't be removed stay:
// they may be another user's.
func removeStale(parent string) {
	files, _ := filepath.Glob(filepath.Join(parent, dirPrefix+"*", ownerFile)) // the pattern is not malformed
	for _, file := range files {
		if name, err := os.ReadFile(file); err == nil && owner.Dead(string(name)) {
			_ = os.RemoveAll(filepath.Dir(file))
		}
	}
}
