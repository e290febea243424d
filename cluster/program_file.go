package cluster

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// programGrace is how long a program file has between SIGTERM and SIGKILL.
const programGrace = 10 * time.Second

// ProgramFile is an executable of this machine as a Program, e.g. a build of upstream's: a process with the member's
// arguments, in the member's directory, whose output is the member's log. It gets SIGTERM when the member stops, and
// SIGKILL 10 s later. On Linux it does not outlive this process. It has the time of this machine, whatever the clock of
// the cluster says.
//
// A file named by a relative path is looked for from the working directory at the time of the call.
func ProgramFile(file string) Program {
	path, err := filepath.Abs(file)
	return func(ctx context.Context, env Env) error {
		if err != nil {
			return err
		}
		env.listensItself()
		// The signal of the parent's death is sent when the thread ends that started the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := exec.CommandContext(ctx, path, env.Args...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = env.Dir, env.Log, env.Log
		cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, programGrace
		cmd.SysProcAttr = processAttributes()
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		return nil
	}
}
