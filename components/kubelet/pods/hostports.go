package pods

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// openHostPorts opens the host ports of a sandbox that was just started. One whose ports can't be opened is removed:
// its pod is better not started than started without what it counts on.
func (o *operations) openHostPorts(ctx context.Context, spec *runtime.SandboxSpec, id string) error {
	if o.HostPorts == nil || spec.HostNetwork || len(spec.Ports) == 0 {
		return nil
	}
	observed, err := o.Engine.Pod(ctx, o.uid)
	if err == nil {
		err = o.HostPorts.Set(ctx, &observed)
	}
	if err == nil || ctx.Err() != nil {
		return err
	}
	if removeErr := o.Engine.Remove(context.WithoutCancel(ctx), id); removeErr != nil {
		return fmt.Errorf("%w (and remove the sandbox: %v)", err, removeErr)
	}
	return err
}

// portsOpened is for what the host ports of a pod were set last.
type portsOpened struct {
	known   bool // they were set
	sandbox string
	ips     []string
	tried   int // the observation for which it was tried last
}

func (p *portsOpened) equal(o *portsOpened) bool {
	return p.known == o.known && p.sandbox == o.sandbox && slices.Equal(p.ips, o.ips)
}

// wantedPorts is for what the host ports are to be set: the newest sandbox, while it runs.
func (s *state) wantedPorts() portsOpened {
	wanted := portsOpened{known: true}
	if s.sandboxRuns() {
		wanted.sandbox, wanted.ips = s.observed.Sandbox().ID, s.observed.Sandbox().IPs
	}
	return wanted
}

// setHostPorts follows a sandbox that ended, and those that were started before the kubelet.
func (w *worker) setHostPorts(ctx context.Context, pod *v1.Pod) {
	s := &w.state
	wanted := s.wantedPorts()
	if w.HostPorts == nil || s.settingPorts || s.ports.equal(&wanted) || s.ports.tried == s.observations {
		return
	}
	s.settingPorts, s.ports.tried = true, s.observations
	observed := s.observed
	w.begin(func(func(result)) result {
		err := w.HostPorts.Set(ctx, &observed)
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Host ports of the pod can't be set, will be retried", "pod",
				klog.KObj(pod))
			w.record(pod, v1.EventTypeWarning, "FailedHostPorts", fmt.Sprintf("Failed to set host ports: %v", err))
		}
		return portsSet{wanted, err}
	})
}

// portsSet tells that the host ports were set, or could not be.
type portsSet struct {
	ports portsOpened
	err   error
}

func (r portsSet) apply(_ context.Context, w *worker) {
	s := &w.state
	s.settingPorts = false
	s.decide = s.decide || s.leaves() // its end waits for it
	r.ports.tried = s.ports.tried
	if r.err != nil {
		r.ports.known = false
	}
	s.ports = r.ports
}
