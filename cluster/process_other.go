//go:build !linux

package cluster

import "syscall"

// processAttributes give a process a group of its own, so that the terminal interrupts only this one.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
