//go:build !linux

package footprint

// machineMemory is not known here.
func machineMemory() uint64 { return 0 }
