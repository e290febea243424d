//go:build !linux

package footprint

func trimPages() {}
