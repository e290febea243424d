package bench

import "syscall"

// withParent has a program end when this process does, also by a crash.
func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
