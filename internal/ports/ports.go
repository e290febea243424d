// Package ports opens the ports of servers.
package ports

import (
	"context"
	"errors"
	"net"
	"syscall"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// Sharing is which other users a port may have. The zero value allows none.
type Sharing struct {
	Port    bool // with other servers on the same address and port: SO_REUSEPORT
	Address bool // with connections of a former server that linger: SO_REUSEADDR
}

// AddFlags binds upstream's flags.
func (s *Sharing) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&s.Port, "permit-port-sharing", s.Port,
		"Let several servers listen on the same address and port (SO_REUSEPORT).")
	fs.BoolVar(&s.Address, "permit-address-sharing", s.Address,
		"Listen where connections of a former server linger (SO_REUSEADDR).")
}

// Listen opens the port.
func (s Sharing) Listen(address string) (net.Listener, error) {
	options := map[int]bool{unix.SO_REUSEPORT: s.Port, unix.SO_REUSEADDR: s.Address}
	config := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) error {
		var errs []error
		err := conn.Control(func(fd uintptr) {
			for option, on := range options {
				if on {
					errs = append(errs, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, option, 1))
				}
			}
		})
		return errors.Join(append(errs, err)...)
	}}
	return config.Listen(context.Background(), "tcp", address)
}
