package owner

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ownerPrefix is the boot of the machine; process numbers have no namespaces.
func ownerPrefix() (string, error) {
	boot, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return "", fmt.Errorf("kern.bootsessionuuid: %w", err)
	}
	return boot + "/pids", nil
}

// startTime is when a process started, by the kernel's table of processes (sysctl(3), KERN_PROC_PID).
func startTime(pid int) (string, error) {
	process, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if errors.Is(err, unix.EIO) { // the answer is empty
		return "", fmt.Errorf("process %d: %w", pid, os.ErrNotExist)
	}
	if err != nil {
		return "", fmt.Errorf("process %d: %w", pid, err)
	}
	started := process.Proc.P_starttime
	return fmt.Sprintf("%d.%06d", started.Sec, started.Usec), nil
}
