package cluster

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/internal/join"
)

// controllersArg turns on, as kubeadm does, the controllers of bootstrap tokens. It leaves the choice to the user's
// --controllers where there is one, as a second would add to the first.
func (c *config) controllersArg() []string {
	for _, arg := range c.args[ControllerManager] {
		if strings.HasPrefix(arg, "--controllers") {
			return nil
		}
	}
	return []string{"--controllers=*,bootstrap-signer-controller,token-cleaner-controller"}
}

// joinConfig is what a node runs with that joins by a token. It has no key: it requests its certificates, and gets
// tokens for its services.
func (l *layout) joinConfig() (join.NodeConfig, error) {
	const anyNode = "" // the addresses and the name are the node's to find out
	file := l.files(anyNode)
	f := newFiles()
	f.add("kubelet.yaml", append(l.kubeletConfiguration(anyNode),
		"rotateCertificates: true\nserverTLSBootstrap: true\n"...), nil)
	l.nodeServiceFiles(f, anyNode)
	f.userFiles(Node, l.config.files[Node])
	args := append([]string{
		"--kubeconfig=" + file(join.KubeletConf), "--bootstrap-kubeconfig=" + file(join.BootstrapConf),
		"--config=" + file("kubelet.yaml"), "--pod-infra-container-image=quintet/pause:dev", "--root-dir=" + kubelets,
	}, l.config.engineArgs()...)
	c := join.NodeConfig{
		KubeletArgs: append(args, l.userArgs(Node, anyNode, l.config.args[Node])...), Files: f.content,
		IPFamilies: l.config.ipFamilies(),
	}
	for _, service := range l.config.nodeServices() {
		c.Services = append(c.Services, string(service.component))
	}
	return c, f.err
}

// ipFamilies are those of nodes' addresses, the primary first.
func (c *config) ipFamilies() []corev1.IPFamily {
	switch c.family {
	case IPv6:
		return []corev1.IPFamily{corev1.IPv6Protocol}
	case DualStack:
		return []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	default:
		return []corev1.IPFamily{corev1.IPv4Protocol}
	}
}
