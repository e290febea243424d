package policytest

import (
	"context"
	"sync/atomic"

	"sigs.k8s.io/knftables"
)

// Kernel tells of a fake what nft.Kernel does of the kernel. Its generation never stays, so that each check looks.
type Kernel struct {
	Fake       *knftables.Fake
	generation atomic.Uint32
}

// Generation implements nft.Kernel.
func (k *Kernel) Generation() (uint32, error) { return k.generation.Add(1), nil }

// Count implements nft.Kernel.
func (k *Kernel) Count(context.Context) (map[string]int, error) {
	k.Fake.RLock()
	defer k.Fake.RUnlock()
	counts := map[string]int{}
	if k.Fake.Table == nil {
		return counts, nil
	}
	for name, chain := range k.Fake.Table.Chains {
		counts[name] = len(chain.Rules)
	}
	for name, set := range k.Fake.Table.Sets {
		counts[name] = len(set.Elements)
	}
	for name, of := range k.Fake.Table.Maps {
		counts[name] = len(of.Elements)
	}
	return counts, nil
}
