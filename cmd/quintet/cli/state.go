package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/cluster/owner"
)

// state is the directory with one folder per cluster that this user started. Docker is the record of what runs in
// containers; the folder adds the kubeconfig as a file, and is the record of clusters without Docker.
type state struct{ dir string }

// entry is the content of a cluster's folder besides its kubeconfig.
type entry struct {
	Name      string `json:"name"`
	InProcess bool   `json:"inProcess"`
	// Owner names the process of an in-process cluster.
	Owner string `json:"owner,omitempty"`
	// Scheduler is the address of the scheduler's diagnostics.
	Scheduler string `json:"scheduler,omitempty"`
	// Merged is the kubeconfig file that has a context of the cluster.
	Merged string `json:"merged,omitempty"`
}

// lockTimeout is how long to wait while another program changes a kubeconfig file.
const lockTimeout = 10 * time.Second

const (
	kubeconfigFile = "kubeconfig"
	logFile        = "log"
	entryFile      = "cluster.json"
)

// defaultStateDir follows the XDG base directory specification.
func defaultStateDir() (string, error) {
	if base := os.Getenv("XDG_STATE_HOME"); base != "" {
		return filepath.Join(base, "quintet"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".local", "state", "quintet"), nil
}

func (s state) kubeconfig(name string) string { return filepath.Join(s.dir, name, kubeconfigFile) }

// log is the file that libraries of an in-process cluster log to.
func (s state) log(name string) string { return filepath.Join(s.dir, name, logFile) }

// save writes a cluster's folder; kubeconfig is nil while there is none.
func (s state) save(e entry, kubeconfig []byte) error {
	return s.exclusively(func() error { return s.write(e, kubeconfig) })
}

// write is save by the holder of the lock. A process that ends half-way leaves a folder without an entry, or with the
// one before.
func (s state) write(e entry, kubeconfig []byte) error {
	dir := filepath.Join(s.dir, e.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	content, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if kubeconfig != nil {
		err = os.WriteFile(filepath.Join(dir, kubeconfigFile), kubeconfig, 0o600)
	}
	part := filepath.Join(dir, entryFile+".part")
	return errors.Join(err, os.WriteFile(part, content, 0o600), os.Rename(part, filepath.Join(dir, entryFile)))
}

// exclusively runs change while it holds the lock of this directory. The lock is released when the process ends.
func (s state) exclusively(change func() error) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	dir, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	defer dir.Close() // which unlocks it
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", s.dir, err)
	}
	return change()
}

// remove forgets a cluster that is gone, and takes its context out of the kubeconfig file that it was merged into.
func (s state) remove(name string) error {
	var err error
	if file := s.entry(name).Merged; file != "" {
		ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
		defer cancel()
		err = cluster.UnmergeKubeconfig(ctx, file, name)
	}
	return errors.Join(err, os.RemoveAll(filepath.Join(s.dir, name)))
}

// inProcess lists the clusters that live in a process of this machine, and forgets those whose process ended.
func (s state) inProcess() (entries []entry, err error) {
	if _, err := os.Stat(s.dir); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	err = s.exclusively(func() error {
		entries, err = s.living()
		return err
	})
	return entries, err
}

// living is inProcess by the holder of the lock.
func (s state) living() ([]entry, error) {
	dirs, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, dir := range dirs {
		if !dir.IsDir() {
			continue
		}
		e := s.entry(dir.Name())
		switch {
		case e.Name == "", e.InProcess && owner.Dead(e.Owner): // a process ended while it wrote, or after it
			if err := s.remove(dir.Name()); err != nil {
				return nil, err
			}
		case e.InProcess:
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// removeContainers forgets all clusters of containers, which are gone.
func (s state) removeContainers() error {
	dirs, err := os.ReadDir(s.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, dir := range dirs {
		if s.hasContainers(dir.Name()) {
			errs = append(errs, s.remove(dir.Name()))
		}
	}
	return errors.Join(errs...)
}

// entry reads what is kept of a cluster; the zero entry for one that this user did not start.
func (s state) entry(name string) entry {
	var e entry
	content, err := os.ReadFile(filepath.Join(s.dir, name, entryFile))
	if err != nil || json.Unmarshal(content, &e) != nil {
		return entry{}
	}
	return e
}

// hasContainers tells whether the folder is of a cluster of containers, which may be gone.
func (s state) hasContainers(name string) bool {
	e := s.entry(name)
	return e.Name != "" && !e.InProcess
}
