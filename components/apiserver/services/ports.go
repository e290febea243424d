package services

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/core"
)

var errPortTaken = errors.New("provided port is already allocated")

// Ranges keeps one bitmap in the store.
type Ranges interface {
	// Update lets change set and clear bits, again when another writer was faster; the bitmap is created empty. Nothing
	// is written when change returns an error, which is then returned, or leaves the bits as they are.
	Update(ctx context.Context, change func(bits *big.Int) error) error
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
	set  func(port int)
	fail func(err error) error
}

// takePorts takes the ports that new asks for, or needs, and that old hasn't got, all in one write.
func (t *transaction) takePorts(new, old *corev1.Service) error {
	requests := portRequests(new, old)
	if len(requests) == 0 {
		return nil
	}
	taken, err := t.takeAll(requests)
	if err != nil {
		return err
	}
	for _, r := range requests {
		r.set(r.got)
	}
	t.takenPorts = taken
	return nil
}

func (t *transaction) takeAll(requests []*request) ([]int, error) {
	p := &t.allocator.ports
	var taken []int
	var held []int
	take := func(bits *big.Int) error {
		t.allocator.hold(nil, held, -1)
		taken, held = nil, nil
		for _, r := range requests {
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
	}
	if t.dryRun {
		bits, err := p.ranges.Get(t.ctx)
		if err != nil {
			return nil, err
		}
		err = take(bits)
		return taken, err // held until the end of the transaction, released nowhere
	}
	if err := p.ranges.Update(t.ctx, take); err != nil {
		t.allocator.hold(nil, held, -1)
		return nil, err
	}
	return taken, nil
}

// pick sets the bit of a port. Without a wish it looks from a random place on in the upper part, then in the lower
// part, where people choose ports by hand (KEP-3668).
func (p *ports) pick(bits *big.Int, want int) (int, error) {
	if want != 0 {
		i := want - p.first
		if i < 0 || i >= p.size {
			return 0, fmt.Errorf("provided port is not in the valid range. The range of valid ports is %d-%d", p.first, p.first+p.size-1)
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
	return p.ranges.Update(ctx, func(bits *big.Int) error {
		for _, port := range list {
			if i := port - p.first; i >= 0 && i < p.size {
				bits.SetBit(bits, i, 0)
			}
		}
		return nil
	})
}

// portRequests lists the ports to take. Ports of one number but different protocols share a port on nodes.
func portRequests(new, old *corev1.Service) []*request {
	had := map[int]bool{}
	if old != nil {
		for _, p := range portsOf(old) {
			had[p] = true
		}
	}
	var out []*request
	if core.NeedsNodePort(new) || new.Spec.Type == corev1.ServiceTypeLoadBalancer || new.Spec.Type == corev1.ServiceTypeNodePort {
		out = nodePortRequests(new, had)
	}
	if core.NeedsHealthCheckPort(new) && (new.Spec.HealthCheckNodePort == 0 || !had[int(new.Spec.HealthCheckNodePort)]) {
		want := int(new.Spec.HealthCheckNodePort)
		out = append(out, &request{
			want: want,
			set:  func(port int) { new.Spec.HealthCheckNodePort = int32(port) },
			fail: func(err error) error {
				return apierrors.NewInternalError(fmt.Errorf("failed to allocate requested HealthCheck NodePort %v: %w", want, err))
			},
		})
	}
	return out
}

func nodePortRequests(new *corev1.Service, had map[int]bool) []*request {
	var out []*request
	byPort := map[int32]*request{} // for those that share, by the service's port
	byNode := map[int]bool{}       // asked for already
	for i := range new.Spec.Ports {
		p := &new.Spec.Ports[i]
		set := func(port int) { p.NodePort = int32(port) }
		if p.NodePort == 0 {
			if !core.NeedsNodePort(new) {
				continue
			}
			if shared := byPort[p.Port]; shared != nil {
				before := shared.set
				shared.set = func(port int) { before(port); set(port) }
				continue
			}
			if sibling := sharedWish(new.Spec.Ports, i); sibling != 0 {
				p.NodePort = sibling
			}
		}
		want := int(p.NodePort)
		if want != 0 && (had[want] || byNode[want]) {
			continue
		}
		byNode[want] = want != 0
		at := field.NewPath("spec", "ports").Index(i).Child("nodePort")
		r := &request{want: want, set: set, fail: func(err error) error {
			if want == 0 {
				return apierrors.NewInternalError(fmt.Errorf("failed to allocate a nodePort: %w", err))
			}
			return invalid(new, field.ErrorList{field.Invalid(at, p.NodePort, err.Error())})
		}}
		byPort[p.Port] = r
		out = append(out, r)
	}
	return out
}

// sharedWish is the port on nodes that another port of the same number has.
func sharedWish(list []corev1.ServicePort, i int) int32 {
	for k := range list {
		if k != i && list[k].Port == list[i].Port && list[k].Protocol != list[i].Protocol && list[k].NodePort != 0 {
			return list[k].NodePort
		}
	}
	return 0
}
