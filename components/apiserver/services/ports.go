package services

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/core"
)

var errPortTaken = errors.New("provided port is already allocated")

// Ranges keeps one bitmap in the store.
type Ranges interface {
	// Update lets change set and clear bits, again when another writer was faster. Nothing is written when change
	// returns an error, which is then returned, or leaves the bits as they are. It fails where there is no bitmap of
	// the range.
	Update(ctx context.Context, change func(bits *big.Int) error) error
	// Rebuild does so too where there is no bitmap, or one of another range: of that, it begins with what both ranges
	// have.
	Rebuild(ctx context.Context, change func(bits *big.Int) error) error
	// Get returns the bitmap as it is stored.
	Get(ctx context.Context) (*big.Int, error)
}

// ports takes and releases ports: bit i stands for port first+i.
type ports struct {
	ranges      Ranges
	first, size int
	random      func(n int) int
}

// request is one port wanted; want 0 is any.
type request struct {
	want int
	got  int
	set  []*int32
	fail func(err error) error
	// err, if there is one, is what the request comes to.
	err error
}

// takePorts takes the ports that new asks for, or needs, and that old hasn't got, all in one write.
func (t *transaction) takePorts(new, old *corev1.Service) error {
	requests := portRequests(new, old)
	if len(requests) == 0 {
		return nil
	}
	var err error
	if t.dryRun {
		err = t.pretendPorts(requests)
	} else {
		err = t.takeAll(requests)
		t.allocator.metrics.tookPorts(requests, err)
	}
	if err != nil {
		return err
	}
	for _, r := range requests {
		for _, field := range r.set {
			*field = int32(r.got)
		}
	}
	return nil
}

func (t *transaction) takeAll(requests []*request) error {
	p := &t.allocator.ports
	var held []int
	err := p.ranges.Update(t.ctx, func(bits *big.Int) error {
		t.allocator.hold(nil, held, -1)
		held = nil
		var taken []int
		for _, r := range requests {
			if r.err != nil {
				return r.err
			}
			port, err := p.pick(bits, r.want)
			if err != nil {
				return r.fail(err)
			}
			r.got = port
			taken = append(taken, port)
		}
		held = taken
		t.allocator.hold(nil, held, 1)
		return nil
	})
	if err != nil {
		t.allocator.hold(nil, held, -1)
		if errors.Is(err, errNoRange) || errors.Is(err, errOtherRange) {
			return requests[0].fail(err)
		}
		return err
	}
	t.takenPorts = held
	return nil
}

// firstPretended is the port before those that a dry run shows.
const firstPretended = 32768

// pretendPorts answers requests without taking anything: with ports in a row, free or not. Only what is taken already
// is refused, also when it is out of range, as upstream has it.
func (t *transaction) pretendPorts(requests []*request) error {
	p := &t.allocator.ports
	bits, err := p.ranges.Get(t.ctx)
	if err != nil {
		return err
	}
	last := 0
	var taken []int
	for _, r := range requests {
		switch i := r.want - p.first; {
		case r.err != nil:
			return r.err
		case r.want == 0 && last == 0:
			r.got = firstPretended + 1
		case r.want == 0:
			r.got = last + 1
		case slices.Contains(taken, r.want), i >= 0 && i < p.size && bits.Bit(i) == 1:
			return r.fail(errPortTaken)
		default:
			r.got = r.want
		}
		taken, last = append(taken, r.got), max(last, r.got)
	}
	return nil
}

// pick sets the bit of a port. Without a wish it looks from a random place on in the upper part, then in the lower
// part, where people choose ports by hand (KEP-3668).
func (p *ports) pick(bits *big.Int, want int) (int, error) {
	if want != 0 {
		i := want - p.first
		if i < 0 || i >= p.size {
			return 0, fmt.Errorf("provided port is not in the valid range. The range of valid ports is %d-%d", p.first,
				p.first+p.size-1)
		}
		if bits.Bit(i) == 1 {
			return 0, errPortTaken
		}
		bits.SetBit(bits, i, 1)
		return want, nil
	}
	lower := min(max(16, p.size/32), 128)
	if lower >= p.size {
		lower = 0
	}
	for _, part := range []struct{ from, n int }{{lower, p.size - lower}, {0, lower}} {
		if part.n == 0 {
			continue
		}
		start := p.random(part.n)
		for k := range part.n {
			if i := part.from + (start+k)%part.n; bits.Bit(i) == 0 {
				bits.SetBit(bits, i, 1)
				return p.first + i, nil
			}
		}
	}
	return 0, errFull
}

func (p *ports) release(ctx context.Context, list []int) error {
	err := p.ranges.Update(ctx, func(bits *big.Int) error {
		for _, port := range list {
			if i := port - p.first; i >= 0 && i < p.size {
				bits.SetBit(bits, i, 0)
			}
		}
		return nil
	})
	if errors.Is(err, errNoRange) || errors.Is(err, errOtherRange) {
		return nil // what is rebuilt has only ports that services use, in time
	}
	return err
}

// portRequests lists the ports to take.
func portRequests(new, old *corev1.Service) []*request {
	var out []*request
	if t := new.Spec.Type; t == corev1.ServiceTypeNodePort || t == corev1.ServiceTypeLoadBalancer {
		if old == nil {
			out = firstNodePorts(new)
		} else {
			out = furtherNodePorts(new, old)
		}
	}
	if core.NeedsHealthCheckPort(new) && (old == nil || !core.NeedsHealthCheckPort(old)) {
		want := new.Spec.HealthCheckNodePort
		said := "requested"
		if want == 0 {
			said = "a"
		}
		out = append(out, &request{want: int(want), set: []*int32{&new.Spec.HealthCheckNodePort},
			fail: func(err error) error {
				return apierrors.NewInternalError(
					fmt.Errorf("failed to allocate %s HealthCheck NodePort %v: %w", said, want, err))
			}})
	}
	return out
}

// firstNodePorts are those of a new service. Ports of one number but different protocols share a port on nodes.
func firstNodePorts(s *corev1.Service) []*request {
	var out []*request
	shared := map[int32]*request{} // by the service's port
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.NodePort == 0 && !core.NeedsNodePort(s) {
			continue
		}
		r := shared[p.Port]
		switch {
		case r == nil:
			r = nodePortRequest(s, i, wishFor(s.Spec.Ports, p.Port))
			shared[p.Port] = r
		case p.NodePort == 0:
			r.set = append(r.set, &p.NodePort)
			continue
		case int(p.NodePort) == r.want:
			continue
		default:
			r = nodePortRequest(s, i, p.NodePort)
		}
		out = append(out, r)
	}
	return out
}

// wishFor is the port on nodes that is asked for a port, by whichever protocol; 0 if none is.
func wishFor(list []corev1.ServicePort, port int32) int32 {
	for _, p := range list {
		if p.Port == port && p.NodePort != 0 {
			return p.NodePort
		}
	}
	return 0
}

// furtherNodePorts are those that a change adds. Here each protocol gets a port of its own.
func furtherNodePorts(new, old *corev1.Service) []*request {
	type id struct {
		protocol corev1.Protocol
		port     int32
	}
	had := map[int32]bool{}
	for _, p := range old.Spec.Ports {
		had[p.NodePort] = true
	}
	asked := map[id]bool{}
	var out []*request
	for i := range new.Spec.Ports {
		p := &new.Spec.Ports[i]
		if p.NodePort == 0 {
			if core.NeedsNodePort(new) {
				out = append(out, nodePortRequest(new, i, 0))
			}
			continue
		}
		if !had[p.NodePort] {
			out = append(out, nodePortRequest(new, i, p.NodePort))
			had[p.NodePort] = true
		}
		if key := (id{p.Protocol, p.NodePort}); asked[key] {
			out = append(out, &request{err: fmt.Errorf("duplicate nodePort: {%s %d}", p.Protocol, p.NodePort)})
		} else {
			asked[key] = true
		}
	}
	return out
}

func nodePortRequest(s *corev1.Service, i int, want int32) *request {
	at := field.NewPath("spec", "ports").Index(i).Child("nodePort")
	return &request{want: int(want), set: []*int32{&s.Spec.Ports[i].NodePort}, fail: func(err error) error {
		if want == 0 {
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate a nodePort: %w", err))
		}
		return invalid(s, field.ErrorList{field.Invalid(at, want, err.Error())})
	}}
}
