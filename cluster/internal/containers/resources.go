package containers

import (
	"context"
	"fmt"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"k8s.io/apimachinery/pkg/api/resource"

	"quintet.dev/quintet/cluster/internal/backend"
)

// cpuPeriod is the kernel's default period of a CPU quota, in microseconds.
const cpuPeriod = 100_000

// limitResources bounds a container. CPU time is bounded by a quota, as the engine refuses a number of CPUs (NanoCPUs)
// that its machine has not, which overcommit allows. There is no swap beyond the memory.
func limitResources(host *container.HostConfig, r backend.Resources) {
	if r.CPUs > 0 {
		host.CPUPeriod, host.CPUQuota = cpuPeriod, int64(r.CPUs)*cpuPeriod
	}
	host.Memory, host.MemorySwap = r.MemoryBytes, r.MemoryBytes
}

// checkResources refuses members that are given more, together, than the engine's machine has.
func (c *Containers) checkResources(ctx context.Context, members []backend.Placement) error {
	var total backend.Resources
	var disks int64
	for i := range members {
		disks += members[i].DataSize
		total.CPUs += members[i].Resources.CPUs
		total.MemoryBytes += members[i].Resources.MemoryBytes
	}
	if c.config.Overcommit || total == (backend.Resources{}) && disks == 0 {
		return nil
	}
	answer, err := c.docker.Info(ctx, client.InfoOptions{})
	if err != nil {
		return fmt.Errorf("what the Docker engine's machine has: %w", err)
	}
	return exceeds(total, disks, backend.Resources{CPUs: answer.Info.NCPU, MemoryBytes: answer.Info.MemTotal})
}

// exceeds returns an error that tells what is given beyond what the machine has, nil if nothing is. disks, in bytes,
// lie in its memory.
func exceeds(total backend.Resources, disks int64, machine backend.Resources) error {
	const remedy = "give nodes less, or allow it with WithOvercommit (`quintet up --overcommit`)"
	if disks > machine.MemoryBytes {
		return fmt.Errorf("the nodes are to have disks of %s together, which lie in memory, and the Docker engine's "+
			"machine has %s: %s", amount(disks), amount(machine.MemoryBytes), remedy)
	}
	if total.CPUs > machine.CPUs {
		return fmt.Errorf("the nodes are to have %d CPUs together, and the Docker engine's machine has %d: %s",
			total.CPUs, machine.CPUs, remedy)
	}
	if total.MemoryBytes > machine.MemoryBytes {
		return fmt.Errorf("the nodes are to have %s of memory together, and the Docker engine's machine has %s: %s",
			amount(total.MemoryBytes), amount(machine.MemoryBytes), remedy)
	}
	return nil
}

func amount(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }
