// Package eviction ends pods before the node runs out of memory, disk or process IDs, and tells which of these are
// short (https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/).
package eviction

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Signal is something of which a node has only so much.
type Signal string

// The signals that are measured.
const (
	Memory      Signal = "memory.available"
	NodeFS      Signal = "nodefs.available"
	NodeInodes  Signal = "nodefs.inodesFree"
	ImageFS     Signal = "imagefs.available"
	ImageInodes Signal = "imagefs.inodesFree"
	PID         Signal = "pid.available"
)

// condition of the node while too little is left of a signal.
func (s Signal) condition() v1.NodeConditionType {
	switch s {
	case Memory:
		return v1.NodeMemoryPressure
	case PID:
		return v1.NodePIDPressure
	default:
		return v1.NodeDiskPressure
	}
}

// resource that pods are to give back.
func (s Signal) resource() v1.ResourceName {
	switch s {
	case Memory:
		return v1.ResourceMemory
	case PID:
		return "pids"
	case NodeInodes, ImageInodes:
		return "inodes"
	default:
		return v1.ResourceEphemeralStorage
	}
}

func signals() []Signal {
	return []Signal{Memory, NodeFS, NodeInodes, ImageFS, ImageInodes, PID}
}

// amount is a quantity, or a share of what the node has; it never changes.
type amount struct {
	quantity resource.Quantity
	share    float64 // used if it is not 0
}

func (a amount) of(capacity int64) int64 {
	if a.share != 0 {
		return int64(float64(capacity) * a.share)
	}
	return a.quantity.Value()
}

// Threshold is how little may be left of a signal, and for how long less may be.
type Threshold struct {
	Signal  Signal
	Grace   time.Duration // 0 for a hard one
	least   amount
	reclaim amount // beyond least, before the pressure ends
}

// Settings are the fields of the KubeletConfiguration.
type Settings struct {
	Hard, Soft, SoftGrace, MinimumReclaim map[string]string
}

// Defaults are upstream's hard thresholds.
func Defaults() map[string]string {
	return map[string]string{
		"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%",
		"imagefs.available": "15%", "imagefs.inodesFree": "5%",
	}
}

// Parse returns the thresholds of settings; errors are upstream's.
func Parse(s Settings) ([]Threshold, error) {
	hard, err := amounts(s.Hard)
	if err != nil {
		return nil, err
	}
	soft, err := amounts(s.Soft)
	if err != nil {
		return nil, err
	}
	reclaim, err := amounts(s.MinimumReclaim)
	if err != nil {
		return nil, err
	}
	var all []Threshold
	for _, signal := range signals() {
		if least, ok := hard[signal]; ok {
			all = append(all, Threshold{Signal: signal, least: least, reclaim: reclaim[signal]})
		}
		least, ok := soft[signal]
		if !ok {
			continue
		}
		text, ok := s.SoftGrace[string(signal)]
		if !ok {
			return nil, fmt.Errorf("grace period must be specified for the soft eviction threshold %v", signal)
		}
		grace, err := time.ParseDuration(text)
		if err != nil {
			return nil, err
		}
		if grace <= 0 {
			return nil, fmt.Errorf("invalid eviction grace period specified: %v, must be a positive value", text)
		}
		all = append(all, Threshold{Signal: signal, Grace: grace, least: least, reclaim: reclaim[signal]})
	}
	for name := range s.SoftGrace {
		if !slices.Contains(signals(), Signal(name)) {
			return nil, fmt.Errorf("unsupported eviction signal %v", name)
		}
	}
	return all, nil
}

// amounts reads a map of signals; those at 0% or 100% are turned off.
func amounts(texts map[string]string) (map[Signal]amount, error) {
	out := map[Signal]amount{}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		signal, text := Signal(name), texts[name]
		if !slices.Contains(signals(), signal) {
			return nil, fmt.Errorf("unsupported eviction signal %v", name)
		}
		percent, isShare := strings.CutSuffix(text, "%")
		if !isShare {
			quantity, err := resource.ParseQuantity(text)
			if err != nil {
				return nil, err
			}
			if quantity.Sign() < 0 {
				return nil, fmt.Errorf("eviction threshold %v must be positive: %s", signal, &quantity)
			}
			out[signal] = amount{quantity: quantity}
			continue
		}
		share, err := strconv.ParseFloat(percent, 32)
		switch {
		case err != nil:
			return nil, err
		case text == "0%" || text == "100%":
			continue
		case share < 0:
			return nil, fmt.Errorf("eviction percentage threshold %v must be >= 0%%: %s", signal, text)
		case share > 100:
			return nil, fmt.Errorf("eviction percentage threshold %v must be <= 100%%: %s", signal, text)
		}
		out[signal] = amount{share: share / 100}
	}
	return out, nil
}
