package volumes

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// Usage is how full a volume is, in bytes and inodes.
type Usage struct {
	Capacity, Available, Used      int64
	Inodes, InodesFree, InodesUsed int64
}

// Meter is a Plugin that measures its volumes by other means than the file system that is mounted. known is false if it
// has no figures.
type Meter interface {
	Usage(ctx context.Context, s *Source, where Mounted) (usage Usage, known bool, err error)
}

// Measured is a volume of a pod, how full it is and the claim behind it, if any.
type Measured struct {
	Name, Claim string // the claim's name, "" for none
	Usage
}

// Measure tells how full the volumes of a running pod are. Those that can't be measured are left out.
func (m *Manager) Measure(ctx context.Context, pod *v1.Pod) []Measured {
	var all []Measured
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		source, where, ok := m.source(pod.UID, v.Name)
		if !ok || where.Path == "" {
			continue
		}
		plugin, err := m.pluginOf(source)
		if err != nil {
			continue
		}
		measured := Measured{Name: v.Name}
		if source.Claim != nil {
			measured.Claim = source.Claim.Name
		}
		known := false
		if meter, able := plugin.(Meter); able {
			measured.Usage, known, err = meter.Usage(ctx, source, where)
		} else if source.Volume.HostPath == nil && !where.Block {
			measured.Usage, err = fileSystemUsage(where.Path)
			known = true
		}
		if known && err == nil {
			all = append(all, measured)
		}
	}
	return all
}
