package csidriver

// mounter is what the driver needs of the operating system.
type mounter interface {
	// bind makes source, a directory or a file, appear on target, which exists.
	bind(source, target string, readOnly bool) error
	// unmount removes what is mounted on target. Nothing being mounted is no error.
	unmount(target string) error
	// mounted tells whether something is mounted on path.
	mounted(path string) (bool, error)
	// attachLoop returns the loop device of file; it makes one if there is none.
	attachLoop(file string) (device string, err error)
	// growLoop tells the loop device of file that the file has become larger.
	growLoop(file string) error
	// detachLoop removes the loop device of file. None is no error.
	detachLoop(file string) error
}

// systemMounts mounts by system calls, as the driver's image has no programs.
type systemMounts struct{}
