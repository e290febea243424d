package ports

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSharing: what a port may be shared with is said to the kernel.
func TestSharing(t *testing.T) {
	for name, c := range map[string]struct {
		sharing Sharing
		option  int
		want    int
	}{
		"nothing":       {Sharing{}, unix.SO_REUSEPORT, 0},
		"other servers": {Sharing{Port: true}, unix.SO_REUSEPORT, 1},
		"former ones":   {Sharing{Address: true}, unix.SO_REUSEADDR, 1},
	} {
		listener, err := c.sharing.Listen("127.0.0.1:0")
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
