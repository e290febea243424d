package owner

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// ownerPrefix is the boot of the machine and the namespace of process numbers.
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
