//go:build !linux

package bench

import "syscall"

// withParent leaves a program as it is: only Linux ends it with its parent.
func withParent() *syscall.SysProcAttr { return nil }
