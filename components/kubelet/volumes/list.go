package volumes

import "fmt"

// plugins are all kinds of volumes, in the order in which they are asked whether they support one. Those that need
// more of the kubelet than directories come from outside, in Manager.Plugins.
func (m *Manager) plugins() []Plugin {
	return append([]Plugin{
		emptyDirs{m}, hostPaths{},
		files{m, "kubernetes.io/configmap"}, files{m, "kubernetes.io/secret"}, files{m, "kubernetes.io/downward-api"},
		files{m, "kubernetes.io/projected"},
		locals{m}, imageVolumes{m},
	}, m.Plugins...)
}

func (m *Manager) pluginOf(s *Source) (Plugin, error) {
	for _, p := range m.plugins() {
		if p.Supports(s) {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no volume plugin matched: this kind of volume is not supported; use emptyDir, configMap, "+
		"secret, downwardAPI, projected, hostPath, image, csi, ephemeral, or a claim of a hostPath, local or csi "+
		"volume (volume %q)", s.Name())
}
