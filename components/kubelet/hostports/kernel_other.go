//go:build !linux

package hostports

import (
	"context"
	"errors"
	"fmt"
)

// Open makes a manager that opens no ports: there is no nftables here.
func Open() *Manager { return NewManager(noKernel{}, noKernel{}) }

type noKernel struct{}

// Apply implements Filter.
func (noKernel) Apply(_ context.Context, mappings []Mapping) error {
	if len(mappings) == 0 {
		return nil
	}
	return fmt.Errorf("nftables: %w: the kubelet must run on Linux", errors.ErrUnsupported)
}

// Intact implements Filter.
func (noKernel) Intact(context.Context, []Mapping) bool { return true }

// Forget implements Conntrack.
func (noKernel) Forget([]Mapping) error { return nil }
