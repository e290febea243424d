package hollow

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"quintet.dev/quintet/components/kubelet/runtime"
)

var (
	_ runtime.Statistics        = (*Engine)(nil)
	_ runtime.MachineStatistics = (*Engine)(nil)
)

// load is what a container uses as long as it runs.
type load struct {
	cores  float64
	memory uint64 // bytes
}

// What containers use that have no script, and what the machine uses besides.
const (
	idleCores  = 0.001
	idleMemory = 1 << 20
	baseCores  = 0.01
	baseMemory = 64 << 20
)

func loadOf(annotations map[string]string) (load, error) {
	l := load{cores: idleCores, memory: idleMemory}
	for name, set := range map[string]func(resource.Quantity){
		CPU:    func(q resource.Quantity) { l.cores = q.AsApproximateFloat64() },
		Memory: func(q resource.Quantity) { l.memory = uint64(q.Value()) },
	} {
		text, ok := annotations[name]
		if !ok {
			continue
		}
		quantity, err := resource.ParseQuantity(text)
		if err != nil || quantity.Sign() <= 0 {
			return l, fmt.Errorf("annotation %s: %q is not a quantity greater than 0", name, text)
		}
		set(quantity)
	}
	return l, nil
}

// cpuTime is what a container used since its start.
func (e *Engine) cpuTime(c *runtime.Container) time.Duration {
	end := c.Finished
	switch c.State {
	case runtime.Running:
		end = e.options.Clock.Now()
	case runtime.Exited:
	default:
		return 0
	}
	return time.Duration(float64(end.Sub(c.Started)) * e.scripts[c.ID].load.cores)
}

// Stats implements runtime.Statistics.
func (e *Engine) Stats(_ context.Context, id string) (runtime.Usage, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.container(id)
	if c == nil || c.State != runtime.Running {
		return runtime.Usage{}, fmt.Errorf("running container %s: %w", id, runtime.ErrNotFound)
	}
	memory := e.scripts[id].load.memory
	return runtime.Usage{CPU: e.cpuTime(c), MemoryBytes: memory, WorkingSetBytes: memory,
		At: e.options.Clock.Now()}, nil
}

// MachineStats implements runtime.MachineStatistics.
func (e *Engine) MachineStats(context.Context) (runtime.Usage, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.options.Clock.Now()
	used := runtime.Usage{At: now, MemoryBytes: baseMemory,
		CPU: e.removed + time.Duration(float64(now.Sub(e.started))*baseCores)}
	for _, pod := range e.pods {
		for i := range pod.Containers {
			c := &pod.Containers[i]
			used.CPU += e.cpuTime(c)
			if c.State == runtime.Running {
				used.MemoryBytes += e.scripts[c.ID].load.memory
			}
		}
	}
	used.WorkingSetBytes = used.MemoryBytes
	return used, nil
}
