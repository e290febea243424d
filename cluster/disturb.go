package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/cluster/internal/backend"
	"quintet.dev/quintet/components/faultinjector/protocol"
)

// faultInjector is the component of the members that disturb others.
const faultInjector Component = "fault-injector"

// Heal ends a fault. Later calls do nothing. Faults that are not healed end with the cluster.
type Heal func(ctx context.Context) error

// Cut drops all packets between two members of a cluster of containers, those of their pods included, until it is
// healed. Connections stay open, and nothing answers.
func (c *Cluster) Cut(ctx context.Context, a, b *Member) (Heal, error) {
	if b.missing != nil {
		return nil, b.missing
	}
	what := fmt.Sprintf("cut %s off from %s", a.name, b.name)
	if a == b || a.name == b.name {
		return nil, fmt.Errorf("%s: these are two names of one member", what)
	}
	other, ok := b.instance.(networked)
	if !ok {
		return nil, fmt.Errorf("%s: %w", what, errNoNetwork)
	}
	ips, hardware, err := other.NetworkAddresses(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if b.component == Node {
		pods, err := c.podRanges(ctx, b.name)
		if err != nil {
			return nil, fmt.Errorf("%s: find the addresses of its pods: %w", what, err)
		}
		ips = append(ips, pods...)
	}
	args := []string{"--cut=" + strings.Join(ips, ",")}
	if hardware != "" {
		args = append(args, "--cut-hardware="+hardware)
	}
	return c.disturb(ctx, a, what, args...)
}

// podRanges are the addresses of a node's pods.
func (c *Cluster) podRanges(ctx context.Context, node string) ([]string, error) {
	client, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return nil, err
	}
	found, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return found.Spec.PodCIDRs, nil
}

// Delay holds each packet that leaves a member of a cluster of containers back for delay, and for up to jitter more or
// less, until it is healed. The order of packets stays. A member has one delay at a time.
func (c *Cluster) Delay(ctx context.Context, m *Member, delay, jitter time.Duration) (Heal, error) {
	if delay <= 0 || jitter < 0 || jitter > delay {
		return nil, fmt.Errorf("delay %s by %v, and up to %v more or less: use a delay above 0, and a jitter of at most that",
			m.name, delay, jitter)
	}
	return c.disturb(ctx, m, "delay "+m.name, "--delay="+delay.String(), "--jitter="+jitter.String())
}

// Lose drops a part, above 0 and at most 1, of the packets that reach and leave a member of a cluster of containers,
// until it is healed.
func (c *Cluster) Lose(ctx context.Context, m *Member, part float64) (Heal, error) {
	if !(part > 0 && part <= 1) {
		return nil, fmt.Errorf("lose packets of %s: the part of %v is not above 0 and at most 1", m.name, part)
	}
	return c.disturb(ctx, m, "lose packets of "+m.name, fmt.Sprintf("--loss=%g", part))
}

// FillDisk leaves free bytes of the disk that an etcd member has by WithDiskSize, or a node by WithNodeDisk, until it
// is healed. Others have the machine's disk, which is not filled.
func (c *Cluster) FillDisk(ctx context.Context, m *Member, free int64) (Heal, error) {
	what := "fill the disk of " + m.name
	if m.missing != nil {
		return nil, m.missing
	}
	if free < 0 {
		return nil, fmt.Errorf("%s: %d bytes can't be left", what, free)
	}
	if kept := c.Member(diskOf(m.name)); kept.missing != nil {
		return nil, fmt.Errorf("%s: %w: it is the machine's; WithDiskSize gives etcd members in containers disks of their "+
			"own, and WithNodeDisk nodes", what, ErrUnsupported)
	}
	return c.inject(ctx, m, what, backend.Member{DataFrom: diskOf(m.name), Network: backend.NetworkNone,
		Args: []string{"--fill-dir=" + diskDirs[m.component], fmt.Sprintf("--disk-free=%d", free)}})
}

// networked is an instance with a network of its own.
type networked interface {
	NetworkAddresses(ctx context.Context) (ips []string, hardware string, err error)
}

var errNoNetwork = fmt.Errorf("%w: members of this process have no network of their own; requests are disturbed "+
	"WithFaults",
	ErrUnsupported)

func (c *Cluster) disturb(ctx context.Context, m *Member, what string, args ...string) (Heal, error) {
	if m.missing != nil {
		return nil, m.missing
	}
	if _, ok := m.instance.(networked); !ok {
		return nil, fmt.Errorf("%s: %w", what, errNoNetwork)
	}
	return c.inject(ctx, m, what, backend.Member{SharesNetworkWith: m.name, Network: backend.NetworkTap, Args: args})
}

// inject starts an injector beside a member, and returns when its faults are in force.
func (c *Cluster) inject(ctx context.Context, m *Member, what string, planned backend.Member) (Heal, error) {
	planned.Name, planned.Component = m.name+"-fault-"+randomName()[2:], string(faultInjector)
	planned.Program = string(faultInjector)
	var err error
	if planned.Image, err = c.config.builtImage(ctx, faultInjector); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	instance, err := c.backend.Start(ctx, planned)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	injector := &Member{name: planned.Name, component: faultInjector, instance: instance}
	heal := c.healing(m, injector, what)
	if err := until(ctx, injector.inForce); err != nil {
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("%s: %w; its last lines:\n%s", what, err, injector.tail(cleaning)), heal(cleaning))
	}
	if planned.SharesNetworkWith != "" {
		m.addCompanion(injector) // a member that is started again has a new network
	}
	return heal, nil
}

// inForce is nil once the injector's faults are, and ends the wait when the injector ended.
func (m *Member) inForce(ctx context.Context) error {
	state, err := m.instance.State(ctx)
	switch {
	case err != nil:
		return err
	case strings.Contains(m.tail(ctx), protocol.InForce):
		return nil
	case !state.Running:
		return final{fmt.Errorf("%s ended with code %d %s", m.name, state.ExitCode, state.Error)}
	}
	return fmt.Errorf("%s has not begun", m.name)
}

// healing ends an injector, which undoes what it did, and removes it.
func (c *Cluster) healing(m, injector *Member, what string) Heal {
	var mu sync.Mutex
	healed := false
	return func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if healed {
			return nil
		}
		m.dropCompanion(injector)
		if err := injector.Stop(ctx); err != nil {
			return fmt.Errorf("heal: %s: %w", what, err)
		}
		if err := c.backend.Remove(ctx, injector.instance); err != nil {
			return fmt.Errorf("heal: %s: %w", what, err)
		}
		healed = true
		return nil
	}
}
