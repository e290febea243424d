package footprint

import (
	"os"
	"runtime/debug"
)

// clusterGCPercent is how much garbage there may be, in percent of what is alive, in a program that has half of the
// machine to itself.
const clusterGCPercent = 200

// Bound lets a process have up to half of the machine's memory: collections come rarely at first, and often enough to
// stay within that as long as less is alive. It is for a program that is a whole cluster. The environment may set
// another bound (GOMEMLIMIT) and another pace (GOGC).
func Bound() {
	memory := machineMemory()
	if memory == 0 {
		return
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(memory / 2))
	}
	Fix(clusterGCPercent)
}
