package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	goruntime "runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// killProcess kills a process of a container. The engine's number of it means another process, or none, where the
// engine runs in another process namespace: the process has to be in the container's control group.
func killProcess(pid int, container string) error {
	process, err := os.FindProcess(pid) // refers to this process, even if it ends and another gets its number
	if err != nil {
		return err
	}
	defer func() { _ = process.Release() }()
	if there, err := belongs(pid, container); err != nil || !there {
		return err
	}
	if err := process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// belongs checks that a process is one of a container; it is not there if it has ended.
func belongs(pid int, container string) (there bool, err error) {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if err == nil && !strings.Contains(string(groups), container) {
		err = fmt.Errorf("process %d is not in the control group of container %s", pid, container)
	}
	return err == nil, err
}

// processEnv reads the variables that a process of a container was started with; nil if it has ended.
func processEnv(pid int, container string) ([]string, error) {
	if there, err := belongs(pid, container); err != nil || !there {
		return nil, err
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	return strings.Split(string(data), "\x00"), err
}

// dialInNamespace leaves its thread locked when it can't return to its own namespace; Go then discards it.
func dialInNamespace(ctx context.Context, namespace string, port int32) (net.Conn, error) {
	goruntime.LockOSThread()
	own, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	if err != nil {
		goruntime.UnlockOSThread()
		return nil, err
	}
	defer own.Close()
	target, err := os.Open(namespace)
	if err != nil {
		goruntime.UnlockOSThread()
		return nil, err
	}
	defer target.Close()
	if err := unix.Setns(int(target.Fd()), unix.CLONE_NEWNET); err != nil {
		goruntime.UnlockOSThread()
		return nil, fmt.Errorf("enter the pod's network: %w", err)
	}
	var dialer net.Dialer
	conn, dialErr := dialer.DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if dialErr != nil {
		var err6 error
		if conn, err6 = dialer.DialContext(ctx, "tcp6", net.JoinHostPort("::1", strconv.Itoa(int(port)))); err6 == nil {
			dialErr = nil
		}
	}
	if err := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, errors.Join(dialErr, err)
	}
	goruntime.UnlockOSThread()
	return conn, dialErr
}
