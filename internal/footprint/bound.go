package footprint

import (
	"os"
	"runtime/debug"
)

// Bound has collections come early enough that the process stays within half of the machine's memory, as long as less
// than that is alive. GOMEMLIMIT in the environment sets another bound. It is for a program that is a whole cluster:
// one that is let grow to twice of what is alive doesn't fit beside others.
func Bound() {
	if memory := machineMemory(); memory > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(memory / 2))
	}
}
