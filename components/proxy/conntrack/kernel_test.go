package conntrack

import (
	"net"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// TestKernel works in a network namespace of its own, which ends with the thread: it is never unlocked.
func TestKernel(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	kernel, err := NewNetlink()
	if err != nil {
		t.Fatal(err)
	}
	defer kernel.Close()
	for i, endpoint := range []string{"10.1.0.1", "10.1.0.9"} {
		entry := &netlink.ConntrackFlow{
			FamilyType: unix.AF_INET, TimeOut: 100,
			Forward: netlink.IPTuple{
				Protocol: unix.IPPROTO_UDP, SrcIP: net.IPv4(10, 1, 0, 50).To4(), SrcPort: uint16(4000 + i),
				DstIP: net.IPv4(10, 0, 0, 10).To4(), DstPort: 53,
			},
			Reverse: netlink.IPTuple{
				Protocol: unix.IPPROTO_UDP, SrcIP: net.ParseIP(endpoint).To4(), SrcPort: 53,
				DstIP: net.IPv4(10, 1, 0, 50).To4(), DstPort: uint16(4000 + i),
			},
		}
		if err := kernel.handle.ConntrackCreate(netlink.ConntrackTable, unix.AF_INET, entry); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := Clean(kernel, v1.IPv4Protocol, dnsTable("10.1.0.1")); n != 1 || err != nil {
		t.Errorf("%d deleted, error %v", n, err)
	}
	left, err := kernel.handle.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
	if err != nil || len(left) != 1 || left[0].Reverse.SrcIP.String() != "10.1.0.1" {
		t.Errorf("left are %v, error %v", left, err)
	}
	if n, err := Clean(kernel, v1.IPv6Protocol, dnsTable("10.1.0.1")); n != 0 || err != nil {
		t.Errorf("IPv6: %d deleted, error %v", n, err)
	}
}
