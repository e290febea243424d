package footprint

import (
	"os"
	"reflect"
	"runtime/debug"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestPercent(t *testing.T) {
	for _, c := range []struct {
		live, roots uint64
		since       time.Duration
		want        int
	}{
		{0, 0, time.Minute, 1200},
		{12 << 20, 0, time.Minute, 100},
		{10 << 20, 2 << 20, time.Minute, 100},
		{12 << 20, 0, time.Second, 560},
		{12 << 20, 11 << 20, time.Second, 290},
		{50 << 20, 0, time.Second, 80},
		{60 << 20, 0, time.Second, 80},
		{60 << 20, 0, time.Minute, 50},
		{90 << 20, 0, time.Second, 100},
		{200 << 20, 0, time.Second, 100},
		{1 << 30, 0, time.Millisecond, 100},
		{1 << 30, 0, time.Minute, 50},
	} {
		if got := percentFor(c.live, c.roots, c.since); got != c.want {
			t.Errorf("%d bytes alive after %v: %d %%, want %d", c.live, c.since, got, c.want)
		}
	}
}

func TestConstant(t *testing.T) {
	const maps = `00400000-00500000 r-xp 00000000 fe:00 11 /bin/p
00500000-00700000 r--p 00100000 fe:00 11 /bin/p
00700000-00800000 rw-p 00300000 fe:00 11 /bin/p
00800000-00900000 rw-p 00000000 00:00 0
7f0000000000-7f0000001000 r--p 00000000 fe:00 12 /lib/other
7ffc00000000-7ffc00001000 r-xp 00000000 00:00 0 [vdso]
`
	want := []region{{0x400000, 0x500000}, {0x500000, 0x700000}}
	if got := constant(strings.NewReader(maps), "/bin/p"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %x", got)
	}
}

// TestTrim runs on with the pages that it has given back.
func TestTrim(t *testing.T) {
	Trim()
	if got := strings.ToUpper("still here"); got != "STILL HERE" {
		t.Error(got)
	}
}

func TestPopulate(t *testing.T) {
	const pages = 64
	size := pages * os.Getpagesize()
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	from := uintptr(unsafe.Pointer(&memory[0]))
	if !populate(from, uintptr(size), unix.MADV_POPULATE_WRITE) {
		t.Skip("this kernel maps nothing ahead")
	}
	resident := make([]byte, pages)
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, from, uintptr(size), uintptr(unsafe.Pointer(&resident[0]))); errno != 0 {
		t.Fatal(errno)
	}
	for page, in := range resident {
		if in&1 == 0 {
			t.Errorf("page %d is not mapped", page)
		}
	}
	if err := unix.Mprotect(memory, unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	if populate(from, uintptr(size), unix.MADV_POPULATE_WRITE) {
		t.Error("what can't be written to counts as mapped")
	}
	if !Populate() {
		t.Error("nothing of the heap is mapped ahead")
	}
}

func TestBegin(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	t.Setenv("GOGC", "70")
	if Begin() {
		t.Error("the environment's pace was taken over")
	}
	t.Setenv("GOGC", "")
	if !Begin() {
		t.Error("nothing paces the start")
	}
	if got := debug.SetGCPercent(100); got != starting {
		t.Errorf("%d %%, want %d", got, starting)
	}
}
