package containers

import (
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"

	"quintet.dev/quintet/cluster/internal/backend"
)

func TestLimitResources(t *testing.T) {
	for name, test := range map[string]struct {
		give backend.Resources
		want container.Resources
	}{
		"no bound": {},
		"CPUs":     {backend.Resources{CPUs: 3}, container.Resources{CPUPeriod: 100000, CPUQuota: 300000}},
		"memory":   {backend.Resources{MemoryBytes: 1 << 30}, container.Resources{Memory: 1 << 30, MemorySwap: 1 << 30}},
	} {
		t.Run(name, func(t *testing.T) {
			var host container.HostConfig
			limitResources(&host, test.give)
			if host.CPUQuota != test.want.CPUQuota || host.CPUPeriod != test.want.CPUPeriod ||
				host.Memory != test.want.Memory || host.MemorySwap != test.want.MemorySwap {
				t.Errorf("got %+v", host.Resources)
			}
		})
	}
}

func TestExceeds(t *testing.T) {
	machine := backend.Resources{CPUs: 4, MemoryBytes: 8 << 30}
	for name, test := range map[string]struct {
		total backend.Resources
		disks int64
		want  []string // words of the error
	}{
		"just fits":       {total: machine, disks: 8 << 30},
		"too many CPUs":   {backend.Resources{CPUs: 5}, 0, []string{"5 CPUs", "has 4", "WithOvercommit"}},
		"too much memory": {backend.Resources{MemoryBytes: 9 << 30}, 0, []string{"9Gi", "has 8Gi", "--overcommit"}},
		"too large disks": {backend.Resources{}, 9 << 30, []string{"9Gi", "has 8Gi", "--overcommit"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := exceeds(test.total, test.disks, machine)
			if (err != nil) != (test.want != nil) {
				t.Fatal(err)
			}
			for _, word := range test.want {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%v does not tell %q", err, word)
				}
			}
		})
	}
}
