package footprint

import (
	"reflect"
	"strings"
	"testing"
)

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
