package faultinjector

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/faultinjector/protocol"
)

const (
	// tapName is fixed: one injector at a time delays a member.
	tapName = "faults-delay"
	// queued is how many packets are held back at most; those beyond are lost, as in a router that is full.
	queued   = 1 << 15
	maxFrame = 1 << 16
)

// frame is a packet that waits.
type frame struct {
	due  time.Time
	data []byte
}

// disturb runs the network's faults.
func (i *Injector) disturb(ctx context.Context) error {
	if i.config.Delay == 0 {
		remove, err := i.install(0)
		if err != nil {
			return err
		}
		klog.FromContext(ctx).Info(protocol.InForce)
		<-ctx.Done()
		return remove()
	}
	out, err := netlink.LinkByName(i.config.Interface)
	if err != nil {
		return fmt.Errorf("interface %s: %w", i.config.Interface, err)
	}
	tap, err := openTap(out.Attrs().MTU)
	if err != nil {
		return fmt.Errorf("make the interface %s, which delayed packets pass (it takes /dev/net/tun): %w", tapName, err)
	}
	defer tap.file.Close()
	socket, err := openSocket(out.Attrs().Index)
	if err != nil {
		return fmt.Errorf("send on %s: %w", i.config.Interface, err)
	}
	defer unix.Close(socket)
	remove, err := i.install(tap.index)
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info(protocol.InForce)
	return i.relay(ctx, tap, func(data []byte) { _, _ = unix.Write(socket, data) }, remove)
}

// relay holds packets back until ctx ends; then it calls restore, and sends what is left.
func (i *Injector) relay(ctx context.Context, tap *tap, send func([]byte), restore func() error) error {
	waiting := make(chan frame, queued)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(waiting)
		return i.read(tap, waiting)
	})
	group.Go(func() error {
		i.deliver(ctx, waiting, send)
		return nil
	})
	<-ctx.Done()
	restored := restore()
	_ = tap.file.Close() // ends the reading
	return errors.Join(restored, group.Wait())
}

func (i *Injector) read(tap *tap, waiting chan<- frame) error {
	var last time.Time
	buffer := make([]byte, maxFrame)
	for {
		n, err := tap.file.Read(buffer)
		if errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if n < 14 || [6]byte(buffer[etherSource:etherSource+6]) == tap.own {
			continue // what the kernel itself sends on a new interface
		}
		last = i.due(last)
		select {
		case waiting <- frame{due: last, data: append([]byte(nil), buffer[:n]...)}:
		default:
		}
	}
}

// due is when a packet that comes now is sent: never before the last one.
func (i *Injector) due(last time.Time) time.Time {
	hold := i.config.Delay
	if i.config.Jitter > 0 {
		hold += time.Duration(rand.Int64N(2*int64(i.config.Jitter)+1)) - i.config.Jitter
	}
	if due := i.config.Clock.Now().Add(hold); due.After(last) {
		return due
	}
	return last
}

// deliver sends frames when they are due; those that are left when ctx ends at once.
func (i *Injector) deliver(ctx context.Context, waiting <-chan frame, send func([]byte)) {
	for f := range waiting {
		if wait := f.due.Sub(i.config.Clock.Now()); wait > 0 {
			timer := i.config.Clock.NewTimer(wait)
			select {
			case <-timer.C():
			case <-ctx.Done():
				timer.Stop()
			}
		}
		send(f.data)
	}
}

// tap is an interface whose packets the process gets.
type tap struct {
	file  *os.File
	index int
	own   [6]byte
}

func openTap(mtu int) (*tap, error) {
	const device = "/dev/net/tun"
	if _, err := os.Stat(device); errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll("/dev/net", 0o755); err != nil {
			return nil, err
		}
		if err := unix.Mknod(device, unix.S_IFCHR|0o600, int(unix.Mkdev(10, 200))); err != nil {
			return nil, err
		}
	}
	fd, err := unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	request, err := unix.NewIfreq(tapName)
	if err == nil {
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	file := os.NewFile(uintptr(fd), device) // from now on it can be polled
	link, err := netlink.LinkByName(tapName)
	if err == nil {
		err = errors.Join(netlink.LinkSetMTU(link, mtu), netlink.LinkSetARPOff(link), netlink.LinkSetUp(link))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	made := &tap{file: file, index: link.Attrs().Index}
	copy(made.own[:], link.Attrs().HardwareAddr)
	return made, nil
}

// openSocket sends whole frames on an interface, marked as relayed.
func openSocket(index int) (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, relayed),
		unix.Bind(fd, &unix.SockaddrLinklayer{Ifindex: index}))
	if err != nil {
		return 0, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}
