package volumes

import "context"

// files are volumes that are made of API objects.
type files struct {
	m    *Manager
	name string
}

// Name implements Plugin.
func (p files) Name() string { return p.name }

// Supports implements Plugin.
func (p files) Supports(s *Source) bool {
	if s.PV != nil {
		return false
	}
	switch v := s.Volume; p.name {
	case "kubernetes.io/configmap":
		return v.ConfigMap != nil
	case "kubernetes.io/secret":
		return v.Secret != nil
	case "kubernetes.io/downward-api":
		return v.DownwardAPI != nil
	default:
		return v.Projected != nil
	}
}

// SetUp implements Plugin.
func (p files) SetUp(ctx context.Context, s *Source) (Mounted, error) {
	payload, err := p.m.payload(ctx, s.Pod, s.Volume)
	if err != nil {
		return Mounted{}, err
	}
	dir := p.m.volumeDir(s, p)
	if err := p.m.directory(dir, s.Volume.ConfigMap == nil); err != nil {
		return Mounted{}, err
	}
	w := writer{dir: dir, group: s.FSGroup(), now: p.m.Clock.Now}
	return Mounted{Path: dir, ReadOnly: true}, w.write(payload)
}
