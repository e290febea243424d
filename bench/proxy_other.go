//go:build !linux

package bench

import (
	"context"
	"errors"
	"fmt"
)

var errNoTables = fmt.Errorf("nftables: %w: run it on Linux", errors.ErrUnsupported)

// proxyTables has no nftables to measure.
func proxyTables(context.Context, Options) ([]Measure, error) { return nil, errNoTables }
