// Package owner names processes so that others can tell whether they still live, and clean up after those that do not.
package owner

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// Self names this process so that any other on the machine can tell whether it still lives: the boot of the machine,
// the namespace of process numbers, the number, and the start time, which tells two processes with one number apart.
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

// Dead tells whether owner is a process that certainly ended. Owners that can't be judged from here are not dead.
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
	return os.IsNotExist(err) || (err == nil && now != started)
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

func ownerPrefix() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(boot)) + "/" + namespace, nil
}

// startTime is field 22 of /proc/<pid>/stat (proc(5)), counted after the command, which may hold spaces.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat is too short", pid)
	}
	return fields[19], nil
}
