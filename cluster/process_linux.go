package cluster

import "syscall"

// processAttributes give a process a group of its own, so that the terminal interrupts only this one, and end it with
// this process.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
