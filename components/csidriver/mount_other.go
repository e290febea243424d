//go:build !linux

package csidriver

import (
	"errors"
	"io/fs"
)

var errLinuxOnly = errors.New("volumes are mounted on Linux only")

func (systemMounts) bind(string, string, bool) error   { return errLinuxOnly }
func (systemMounts) unmount(string) error              { return errLinuxOnly }
func (systemMounts) mounted(string) (bool, error)      { return false, errLinuxOnly }
func (systemMounts) attachLoop(string) (string, error) { return "", errLinuxOnly }
func (systemMounts) growLoop(string) error             { return errLinuxOnly }
func (systemMounts) detachLoop(string) error           { return errLinuxOnly }
func copyOwner(string, fs.FileInfo) error              { return nil }
func usageOf(string) (bytes, inodes int64, err error)  { return 0, 0, errLinuxOnly }
