package cluster

import (
	"path"

	"quintet.dev/quintet/cluster/internal/backend"
)

const provisionerConf = "volume-provisioner.conf"

// hasVolumeProvisioner tells whether there is a default StorageClass and what makes its volumes.
func (c *config) hasVolumeProvisioner() bool {
	return !c.without[VolumeProvisioner] && len(c.names(Node)) > 0
}

// volumeProvisioner makes the volumes of all hollow nodes, as directories that go with the cluster. Nodes in containers
// have one each (nodeServices).
func (l *layout) volumeProvisioner(name string) (backend.Member, *files) {
	f := newFiles()
	f.kubeconfig(provisionerConf, l, l.apiURL(VolumeProvisioner), provisionerUser)
	return backend.Member{Program: "volume-provisioner", Args: []string{
		"--kubeconfig=" + l.files(name)(provisionerConf), "--all-nodes",
		"--volume-dir=" + path.Join(l.addressing.Dir(name), "volumes"),
	}}, f
}
