package boot

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// orphanPoll is the time between looks at what containerd still has.
const orphanPoll = 50 * time.Millisecond

// orphanKiller ends containers that run without dockerd knowing. dockerd that is killed while it starts a container has
// not yet noted that it runs; started again, it takes the container for one that does not run, and leaves its processes
// alone even when the container is removed. What dockerd knows as running is its own to stop or, with live-restore, to
// keep.
type orphanKiller struct {
	// run runs a command to its end, and returns what it writes.
	run               func(ctx context.Context, argv ...string) (string, error)
	socket, namespace string // of dockerd's containers in containerd
	containers        string // directory of dockerd's state of containers
}

// killOrphans ends and removes the orphans, and returns when containerd has none. It must not run while dockerd does.
func (k *orphanKiller) killOrphans(ctx context.Context) error {
	if _, err := os.Stat(k.containers); errors.Is(err, fs.ErrNotExist) {
		return nil // dockerd's configuration file has it keep its state elsewhere: what it knows can't be told
	}
	var last error
	for {
		left, err := k.pass(ctx)
		if err == nil && left == 0 {
			return nil
		}
		if ctx.Err() == nil {
			last = cmp.Or(err, fmt.Errorf("%d orphaned containers are left", left))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kill orphaned containers: %w: %w", ctx.Err(), last)
		case <-time.After(orphanPoll):
		}
	}
}

// pass tries to remove each orphan once, and returns how many there were.
func (k *orphanKiller) pass(ctx context.Context) (int, error) {
	if err := listens(ctx, k.socket); err != nil { // containerd may have ended with dockerd
		return 0, err
	}
	running, err := runningContainers(k.containers)
	if err != nil {
		return 0, err
	}
	tasks, err := k.run(ctx, k.ctr("tasks", "list", "--quiet")...)
	if err != nil {
		return 0, err
	}
	containers, err := k.run(ctx, k.ctr("containers", "list", "--quiet")...)
	if err != nil {
		return 0, err
	}
	started, found := orphans(tasks, running), orphans(tasks+"\n"+containers, running)
	if len(started) > 0 {
		fmt.Fprintf(os.Stderr, "node-init: killing containers that run without dockerd knowing: %s\n",
			strings.Join(started, " "))
		_, err = k.run(ctx, append(k.ctr("tasks", "delete", "--force"), started...)...)
	}
	if len(found) > 0 {
		// The container's file system is dockerd's, which still knows the container.
		_, removed := k.run(ctx, append(k.ctr("containers", "delete", "--keep-snapshot"), found...)...)
		err = errors.Join(err, removed)
	}
	return len(found), err
}

func (k *orphanKiller) ctr(args ...string) []string { return ctrAt(k.socket, k.namespace, args...) }

// orphans picks the containers that are not known as running from a list of containerd's, one a line. They are sorted.
func orphans(list string, running map[string]bool) []string {
	var found []string
	for _, id := range strings.Fields(list) {
		if isContainerID(id) && !running[id] {
			found = append(found, id)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// isContainerID tells a container of dockerd's from other words, such as those of a warning.
func isContainerID(word string) bool {
	return len(word) == 64 && strings.Trim(word, "0123456789abcdef") == ""
}

// runningContainers reads from dockerd's state which containers it knows as running; those that are paused, or that it
// is about to restart, are among them.
func runningContainers(dir string) (map[string]bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	running := map[string]bool{}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, entry.Name(), "config.v2.json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		var container struct {
			State struct{ Running bool }
		}
		// dockerd does not load a container whose state is no JSON.
		if json.Unmarshal(content, &container) == nil && container.State.Running {
			running[entry.Name()] = true
		}
	}
	return running, nil
}

// dockerNamespace is where dockerd with these arguments keeps its containers in containerd.
func dockerNamespace(argv []string) string {
	return cmp.Or(flagValue(argv, "--containerd-namespace"), "moby")
}
