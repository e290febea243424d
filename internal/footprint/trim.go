package footprint

import "runtime/debug"

// Trim gives back what a program needed for a busy time, as its start is: garbage, and, on Linux, the pages of its own
// code and constants, of which most are not looked at again; those that are come back from the page cache at once. It
// takes a collection of the heap. What can't be given back stays, without an error.
func Trim() {
	debug.FreeOSMemory()
	trimPages()
}
