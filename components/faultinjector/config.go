// Package faultinjector does to one member of a cluster what networks and disks do: it drops packets, delays them, cuts
// off peers, and fills a disk, until it ends. It runs beside the member, in its network namespace and with its volumes.
//
// Packets are looked at where they leave and enter the interface (nftables, family netdev), so that those of pods which
// a node passes on are among them. Delayed packets pass through a TAP interface of the process. No queueing discipline
// of the kernel is needed (netem), which machines for tests often lack.
package faultinjector

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/faultinjector/protocol"
)

// Config of one injector.
type Config struct {
	// Interface is that of the member on the cluster's network.
	Interface string
	// Cut are addresses and ranges of peers that no packet reaches, and CutHardware the hardware addresses of those that
	// pass on packets of others.
	Cut         []string
	CutHardware []string
	// Loss is the part of packets, of either direction, that is dropped: 0 to 1.
	Loss float64
	// Delay is how long packets that leave are held back, and Jitter how much more or less that may be. Their order stays.
	Delay, Jitter time.Duration
	// FillDir is a directory whose disk is filled until DiskFree bytes are left; "" for none.
	FillDir  string
	DiskFree int64
	// Hold has the injector do nothing: the volumes that it shares stay mounted.
	Hold bool
	// Clock tells when delayed packets are due.
	Clock clock.WithTicker
}

// NewConfig returns the defaults.
func NewConfig() *Config { return &Config{Interface: "eth0", Clock: clock.RealClock{}} }

// AddFlags adds the flags of the program.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Interface, "interface", c.Interface, "Interface whose packets are disturbed.")
	fs.StringSliceVar(&c.Cut, "cut", c.Cut, "Addresses and ranges (CIDR) of peers to drop all packets of and to.")
	fs.StringSliceVar(&c.CutHardware, "cut-hardware", c.CutHardware, "Hardware addresses of such peers.")
	fs.Float64Var(&c.Loss, "loss", c.Loss, "Part of packets of both directions to drop, between 0 and 1.")
	fs.DurationVar(&c.Delay, "delay", c.Delay, "How long to hold back packets that leave.")
	fs.DurationVar(&c.Jitter, "jitter", c.Jitter, "How much more or less each packet is held back.")
	fs.StringVar(&c.FillDir, "fill-dir", c.FillDir, "Directory whose disk is filled.")
	fs.Int64Var(&c.DiskFree, "disk-free", c.DiskFree, "Bytes of that disk to leave free.")
	fs.BoolVar(&c.Hold, "hold", c.Hold, "Do nothing but keep shared volumes mounted.")
}

// plan is a Config that was checked.
type plan struct {
	peers    []netip.Prefix
	hardware []net.HardwareAddr
}

func (c *Config) plan() (plan, error) {
	var p plan
	for _, text := range c.Cut {
		prefix, err := netip.ParsePrefix(text)
		if ip, e := netip.ParseAddr(text); e == nil {
			prefix, err = netip.PrefixFrom(ip, ip.BitLen()), nil
		}
		if err != nil {
			return p, fmt.Errorf("--cut=%s: neither an address nor a range", text)
		}
		p.peers = append(p.peers, prefix.Masked())
	}
	for _, text := range c.CutHardware {
		mac, err := net.ParseMAC(text)
		if err != nil || len(mac) != 6 {
			return p, fmt.Errorf("--cut-hardware=%s: no hardware address", text)
		}
		p.hardware = append(p.hardware, mac)
	}
	switch {
	case c.Loss < 0 || c.Loss > 1:
		return p, fmt.Errorf("--loss=%v: use a part between 0 and 1", c.Loss)
	case c.Delay < 0 || c.Jitter < 0 || c.Jitter > c.Delay:
		return p, fmt.Errorf("--delay=%v --jitter=%v: neither may be negative, and the jitter is at most the delay", c.Delay,
			c.Jitter)
	case c.DiskFree < 0:
		return p, fmt.Errorf("--disk-free=%d: it may not be negative", c.DiskFree)
	case !c.Hold && c.FillDir == "" && !c.disturbsNetwork():
		return p, errors.New("no fault: use --cut, --loss, --delay, --fill-dir or --hold")
	}
	return p, nil
}

func (c *Config) disturbsNetwork() bool {
	return len(c.Cut)+len(c.CutHardware) > 0 || c.Loss > 0 || c.Delay > 0
}

// Injector is made by New.
type Injector struct {
	config Config
	plan   plan
}

// New checks the configuration; it changes nothing.
func New(c Config) (*Injector, error) {
	p, err := c.plan()
	return &Injector{config: c, plan: p}, err
}

// Run injects the faults until ctx ends, and then undoes them.
func (i *Injector) Run(ctx context.Context) error {
	if i.config.FillDir != "" {
		remove, err := fill(i.config.FillDir, i.config.DiskFree)
		if err != nil {
			return fmt.Errorf("fill the disk of %s: %w", i.config.FillDir, err)
		}
		defer remove()
	}
	if !i.config.disturbsNetwork() {
		klog.FromContext(ctx).Info(protocol.InForce)
		<-ctx.Done()
		return nil
	}
	return i.disturb(ctx)
}
