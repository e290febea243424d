// Package owner names processes so that others can tell whether they still live, and clean up after those that do not.
package owner

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"strings"
)

// Self names this process so that any other on the machine can tell whether it still lives: the boot of the machine,
// the namespace of process numbers, the number, and the start time, which distinguishes processes with the same number.
func Self() (string, error) {
	prefix, err := ownerPrefix()
	if err != nil {
		return "", err
	}
	started, err := startTime(os.Getpid())
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s/%d/%s", prefix, os.Getpid(), started), nil
}

// Tag is Self in a form that names of files can have: a hash of the machine's boot and namespace, the number, and the
// start time.
func Tag() (string, error) {
	self, err := Self()
	if err != nil {
		return "", err
	}
	prefix, err := ownerPrefix()
	if err != nil {
		return "", err
	}
	pid, started, _ := parse(self, prefix)
	return fmt.Sprintf("%s_%d_%s", hashed(prefix), pid, started), nil
}

// DeadTag tells whether a Tag is of a process that certainly ended, as Dead does.
func DeadTag(tag string) bool {
	prefix, err := ownerPrefix()
	if err != nil {
		return false
	}
	rest, here := strings.CutPrefix(tag, hashed(prefix)+"_")
	return here && Dead(prefix+"/"+strings.Replace(rest, "_", "/", 1))
}

func hashed(prefix string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(prefix)) // never fails (hash.Hash)
	return strconv.FormatUint(h.Sum64(), 36)
}

// Dead tells whether owner is a process that certainly ended. Owners that can't be checked from here are not dead.
func Dead(owner string) bool {
	prefix, err := ownerPrefix()
	if err != nil {
		return false
	}
	pid, started, here := parse(owner, prefix)
	if !here {
		return false
	}
	now, err := startTime(pid)
	return errors.Is(err, os.ErrNotExist) || (err == nil && now != started)
}

// Process returns the number of the process that owner names, if it lives on this machine.
func Process(owner string) (pid int, alive bool) {
	prefix, err := ownerPrefix()
	if err != nil {
		return 0, false
	}
	pid, started, here := parse(owner, prefix)
	if !here {
		return 0, false
	}
	now, err := startTime(pid)
	return pid, err == nil && now == started
}

func parse(owner, prefix string) (pid int, started string, here bool) {
	rest, here := strings.CutPrefix(owner, prefix+"/")
	if !here {
		return 0, "", false
	}
	_, err := fmt.Sscanf(strings.Replace(rest, "/", " ", 1), "%d %s", &pid, &started)
	return pid, started, err == nil
}
