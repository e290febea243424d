package apiserver

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"quintet.dev/quintet/components/apiserver/options"
)

// TestSharing: what a port may be shared with is said to the kernel.
func TestSharing(t *testing.T) {
	for name, c := range map[string]struct {
		serving options.Serving
		option  int
		want    int
	}{
		"nothing":       {options.Serving{}, unix.SO_REUSEPORT, 0},
		"other servers": {options.Serving{PermitPortSharing: true}, unix.SO_REUSEPORT, 1},
		"former ones":   {options.Serving{PermitAddressSharing: true}, unix.SO_REUSEADDR, 1},
	} {
		listener, err := listen(c.serving, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		conn, err := listener.(*net.TCPListener).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var got int
		var failed error
		if err := conn.Control(func(fd uintptr) {
			got,
				failed = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, c.option)
		}); err != nil || failed != nil {
			t.Fatal(err, failed)
		}
		if got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
		_ = listener.Close()
	}
}
