package proxy

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"k8s.io/klog/v2"
)

// limit raises the kernel's limits; what can't be written, as in a container, is logged.
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

// raiseSysctl sets a value that is lower; the machine's owner may have chosen a higher one.
func raiseSysctl(name string, value int) error { return raise("/proc/sys/"+name, value) }

func raise(file string, value int) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	now, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err == nil && now >= value {
		return nil
	}
	return os.WriteFile(file, []byte(strconv.Itoa(value)), 0o644)
}
