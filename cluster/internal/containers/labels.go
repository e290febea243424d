package containers

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// Labels on everything that belongs to a cluster.
const (
	LabelCluster   = "io.quintet.cluster"
	LabelComponent = "io.quintet.component"
	LabelMember    = "io.quintet.member"
	// LabelOwner tells who removes the cluster: OwnerUser, or the process named by Owner.
	LabelOwner = "io.quintet.owner"
)

// OwnerUser owns clusters that outlive the process which started them.
const OwnerUser = "user"

// Owner names this process so that any other on the machine can tell whether it still lives: the boot of the machine,
// the namespace of process numbers, the number, and the start time, which tells two processes with one number apart.
func Owner() (string, error) {
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

// dead tells whether owner is a process that certainly ended. Owners that can't be judged from here are not dead.
func dead(owner string) bool {
	prefix, err := ownerPrefix()
	if err != nil {
		return false
	}
	rest, here := strings.CutPrefix(owner, prefix+"/")
	if !here {
		return false
	}
	var pid int
	var started string
	if _, err := fmt.Sscanf(strings.Replace(rest, "/", " ", 1), "%d %s", &pid, &started); err != nil {
		return false
	}
	now, err := startTime(pid)
	return os.IsNotExist(err) || (err == nil && now != started)
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
