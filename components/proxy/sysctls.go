package proxy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"k8s.io/klog/v2"
)

// limit sets the kernel's limits; what can't be written, as in a container, is logged.
func (c Conntrack) limit(ctx context.Context, sysctl func(name string, value int) error) {
	log := klog.FromContext(ctx)
	set := func(name string, value int) {
		if value == 0 {
			return
		}
		if err := sysctl("net/netfilter/"+name, value); err != nil {
			log.Info("Failed to set a limit of connection tracking", "sysctl", name, "value", value, "err", err)
		}
	}
	if c.MaxPerCore > 0 {
		set("nf_conntrack_max", max(int(c.MaxPerCore)*runtime.NumCPU(), int(c.Min)))
	}
	set("nf_conntrack_tcp_timeout_established", seconds(c.TCPEstablished))
	set("nf_conntrack_tcp_timeout_close_wait", seconds(c.TCPCloseWait))
	set("nf_conntrack_udp_timeout", seconds(c.UDP))
	set("nf_conntrack_udp_timeout_stream", seconds(c.UDPStream))
	if c.TCPBeLiberal {
		set("nf_conntrack_tcp_be_liberal", 1)
	}
}

func seconds(d time.Duration) int { return int(d / time.Second) }

// writeSysctl sets a value that is not there yet.
func writeSysctl(name string, value int) error {
	file := "/proc/sys/" + name
	now, err := os.ReadFile(file)
	if err == nil && strings.TrimSpace(string(now)) == strconv.Itoa(value) {
		return nil
	}
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is not there: %w", file, err)
	}
	return os.WriteFile(file, []byte(strconv.Itoa(value)), 0o644)
}
