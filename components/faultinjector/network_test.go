package faultinjector

import (
	"context"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"quintet.dev/quintet/components/faultinjector/protocol"
)

// pair is two network namespaces with a link: the injector's end at 10.99.0.1, and the peer's at 10.99.0.2, which
// echoes datagrams. The test stays on its thread, in the injector's.
func pair(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces take root")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test's goroutine
	peer, err := netns.New()
	if err != nil {
		t.Skip("no network namespaces:", err)
	}
	configure := func(name, address string) {
		link, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		ip, _ := netlink.ParseAddr(address)
		if err := netlink.AddrAdd(link, ip); err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetUp(link); err != nil {
			t.Fatal(err)
		}
	}
	own, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "peer", PeerNamespace: netlink.NsFd(peer)}
	if err := netlink.LinkAdd(veth); err != nil {
		t.Fatal(err)
	}
	configure("eth0", "10.99.0.1/24")
	if err := netns.Set(peer); err != nil {
		t.Fatal(err)
	}
	configure("peer", "10.99.0.2/24")
	echo, err := net.ListenPacket("udp4", "10.99.0.2:7")
	if err != nil {
		t.Fatal(err)
	}
	var echoing sync.WaitGroup
	echoing.Go(func() {
		buffer := make([]byte, 2000)
		for {
			n, from, err := echo.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = echo.WriteTo(buffer[:n], from)
		}
	})
	if err := netns.Set(own); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = echo.Close()
		echoing.Wait()
		_, _ = own.Close(), peer.Close()
	})
}

// inject runs an injector on this thread's namespace until undo; it is in force when inject returns.
func inject(t *testing.T, set func(*Config)) (undo func()) {
	t.Helper()
	config := NewConfig()
	set(config)
	i, err := New(*config)
	if err != nil {
		t.Fatal(err)
	}
	here, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	log := &signal{inForce: make(chan struct{})}
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(
		textlogger.Output(log)))))
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := netns.Set(here); err != nil {
			ended <- err
			return
		}
		ended <- i.Run(ctx)
	}()
	select {
	case <-log.inForce:
	case err := <-ended:
		t.Fatal(err)
	}
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = here.Close()
	}
}

// signal is a log that tells when faults are in force.
type signal struct {
	inForce chan struct{}
	once    sync.Once
}

func (s *signal) Write(line []byte) (int, error) {
	if strings.Contains(string(line), protocol.InForce) {
		s.once.Do(func() { close(s.inForce) })
	}
	return len(line), nil
}

// ask sends n datagrams one after the other, and returns how many were echoed, and the shortest time of one.
func ask(t *testing.T, n int, wait time.Duration) (echoed int, shortest time.Duration) {
	t.Helper()
	conn, err := net.Dial("udp4", "10.99.0.2:7")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	buffer := make([]byte, 2000)
	shortest = time.Hour
	for i := range n {
		began := time.Now()
		if _, err := conn.Write([]byte{byte(i)}); err != nil {
			continue
		}
		_ = conn.SetReadDeadline(time.Now().Add(wait))
		if _, err := conn.Read(buffer); err == nil {
			echoed++
			shortest = min(shortest, time.Since(began))
		}
	}
	return echoed, shortest
}

// TestNetworkFaults sends real packets: nothing passes a cut, some are lost, all come late; and each fault is undone.
func TestNetworkFaults(t *testing.T) {
	pair(t)
	const generous = 30 * time.Second
	whole := func() {
		t.Helper()
		if echoed, _ := ask(t, 3, generous); echoed != 3 {
			t.Fatalf("%d of 3 packets without a fault", echoed)
		}
	}
	whole()
	undo := inject(t, func(c *Config) { c.Cut = []string{"10.99.0.2"} })
	if echoed, _ := ask(t, 3, 50*time.Millisecond); echoed != 0 {
		t.Errorf("%d packets pass a cut", echoed)
	}
	undo()
	whole()
	undo = inject(t, func(c *Config) { c.Cut = []string{"10.98.0.0/16", "fd00::1"} })
	whole() // another peer is cut off
	undo()
	undo = inject(t, func(c *Config) { c.Loss = 1 })
	if echoed, _ := ask(t, 3, 50*time.Millisecond); echoed != 0 {
		t.Errorf("%d packets where all are lost", echoed)
	}
	undo()
	undo = inject(t, func(c *Config) { c.Loss = 0.5 })
	if echoed, _ := ask(t, 100, 10*time.Millisecond); echoed == 0 || echoed > 60 {
		t.Errorf("%d of 100 packets where half is lost, each way", echoed)
	}
	undo()
	undo = inject(t, func(c *Config) { c.Delay, c.Jitter = 80*time.Millisecond, 20*time.Millisecond })
	if echoed, shortest := ask(t, 5, generous); echoed != 5 || shortest < 60*time.Millisecond {
		t.Errorf("%d packets, one after %v", echoed, shortest)
	}
	lose := inject(t, func(c *Config) { c.Loss = 1 })
	if echoed, _ := ask(t, 2, 200*time.Millisecond); echoed != 0 {
		t.Errorf("%d packets are delayed instead of lost", echoed)
	}
	lose()
	undo()
	whole()
	if _, err := netlink.LinkByName(tapName); err == nil {
		t.Errorf("%s is left", tapName)
	}
}
