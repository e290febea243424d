package kernel

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// openSocket opens a socket for the frames of one protocol on an interface. It needs CAP_NET_RAW.
func openSocket(index int, protocol uint16) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("packet socket (is CAP_NET_RAW missing?): %w", err)
	}
	file := os.NewFile(uintptr(fd), "packet")
	if err := prepare(fd, index, protocol); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

func prepare(fd, index int, protocol uint16) error {
	if protocol == etherIPv6 {
		if err := onlySolicitations(fd); err != nil {
			return fmt.Errorf("filter of a packet socket: %w", err)
		}
	}
	// The field is in network byte order.
	order := binary.BigEndian.AppendUint16(nil, protocol)
	to := &unix.SockaddrLinklayer{Protocol: binary.NativeEndian.Uint16(order), Ifindex: index}
	if err := unix.Bind(fd, to); err != nil {
		return fmt.Errorf("bind a packet socket: %w", err)
	}
	return nil
}

// onlySolicitations keeps the packets that are merely forwarded from being copied to the socket.
func onlySolicitations(fd int) error {
	const nextHeader, icmpType = etherSize + 6, etherSize + ipv6HeaderSize
	program, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: nextHeader, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: icmpv6, SkipTrue: 3},
		bpf.LoadAbsolute{Off: icmpType, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: neighborSolicit, SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 16},
		bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return err
	}
	filters := make([]unix.SockFilter, 0, len(program))
	for _, op := range program {
		filters = append(filters, unix.SockFilter{Code: op.Op, Jt: op.Jt, Jf: op.Jf, K: op.K})
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]})
}
