//go:build !linux

package bench

import "context"

// policyTables has no nftables to measure.
func policyTables(context.Context, Options) ([]Measure, error) { return nil, errNoTables }
