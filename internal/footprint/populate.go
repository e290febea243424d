package footprint

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What is brought in ahead of a start, and for how long.
const (
	heapStep  = 4 << 20 // bytes by which Go's heap grows
	heapAhead = 4 * heapStep
	growing   = 200 * time.Microsecond // between two looks at whether it has grown
	looks     = 500
)

// Populate has the kernel map in advance, beside the caller, what a start is about to touch: the heap as it grows, and the code of
// the program. A start touches thousands of pages once, and each would be a fault, of which some hosts make a dozen microseconds.
// It returns whether that goes on; kernels before Linux 5.14 can't do it.
func Populate() bool {
	heap := uintptr(unsafe.Pointer(new(heapStart))) &^ (heapStep - 1)
	if !populate(heap, heapStep, unix.MADV_POPULATE_WRITE) {
		return false
	}
	go func() {
		code := false
		for next, end, n := heap+heapStep, heap+heapAhead, 0; next < end && n < looks; n++ {
			switch {
			case populate(next, heapStep, unix.MADV_POPULATE_WRITE):
				next += heapStep
			case !code:
				code = true
				populateCode()
			default: // the heap hasn't grown so far
				_ = syscall.Nanosleep(&syscall.Timespec{Nsec: int64(growing)}, nil)
			}
		}
	}()
	return true
}

// heapStart is anything that Go lays into its memory: as long as there is little of that, stacks and objects lie in the first step.
type heapStart struct{ _ *byte }

// populateCode maps the program's code, from the page cache.
func populateCode() {
	if parts := own(); len(parts) > 0 { // what follows the code are tables, of which a start reads little
		populate(parts[0].from, parts[0].to-parts[0].from, unix.MADV_POPULATE_READ)
	}
}

// populate maps all pages of a range, and fails where part of it isn't there.
func populate(from, length uintptr, how uintptr) bool {
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, from, length, how)
	return errno == 0
}
