package footprint

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// trimPages gives back the pages of the program's file.
func trimPages() {
	for _, r := range own() {
		// The kernel reads such pages from the file again, as nothing can have been written to them.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, r.from, r.to-r.from, unix.MADV_DONTNEED)
	}
}

// own finds the parts of the program's file that can't be written to, its code first; none if that can't be found out.
func own() []region {
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil
	}
	defer maps.Close()
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil
	}
	return constant(maps, self)
}

type region struct{ from, to uintptr }

// constant finds the parts of a file that are mapped and can't be written to.
func constant(maps io.Reader, file string) (out []region) {
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		fields := strings.Fields(lines.Text()) // addresses, permissions, offset, device, inode, path
		if len(fields) < 6 || strings.Join(fields[5:], " ") != file || strings.Contains(fields[1], "w") {
			continue
		}
		var r region
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &r.from, &r.to); err == nil {
			out = append(out, r)
		}
	}
	return out
}
