package join

import (
	"encoding/json"
	"fmt"
	"path"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The Secret in kube-system that has a NodeConfig. It is a Secret because the user's files may be secret.
const (
	NodeConfigName = "node-config"
	nodeConfigKey  = "config.json"
)

// Files of a node below /etc/kubernetes that the node writes itself.
const (
	KubeletConf   = "kubelet.conf"
	BootstrapConf = "bootstrap-kubelet.conf"
	AuthorityFile = "pki/ca.crt"
)

// NodeConfig is what a node runs with that joins by a token. It holds no key of the cluster.
type NodeConfig struct {
	// KubeletArgs are the kubelet's, without those that name the node, its addresses, labels and taints.
	KubeletArgs []string `json:"kubeletArgs"`
	// Files by path below /etc/kubernetes.
	Files map[string][]byte `json:"files,omitempty"`
	// Services run beside the kubelet, each as the service account in kube-system of its name.
	Services []string `json:"services,omitempty"`
	// IPFamilies of the node's addresses, "IPv4" or "IPv6", the primary first.
	IPFamilies []corev1.IPFamily `json:"ipFamilies"`
}

// Object is the Secret that has the configuration.
func (c NodeConfig) Object() (*corev1.Secret, error) {
	content, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: NodeConfigName},
		Data:       map[string][]byte{nodeConfigKey: content},
	}, nil
}

// ReadNodeConfig is the reverse of Object. Files are below their directory, whatever the Secret says.
func ReadNodeConfig(s *corev1.Secret) (NodeConfig, error) {
	var c NodeConfig
	content, ok := s.Data[nodeConfigKey]
	if !ok {
		return c, fmt.Errorf("the Secret %s/%s has no %s", s.Namespace, s.Name, nodeConfigKey)
	}
	if err := json.Unmarshal(content, &c); err != nil {
		return c, fmt.Errorf("read Secret %s/%s: %w", s.Namespace, s.Name, err)
	}
	for name := range c.Files {
		if name == "" || path.Clean("/"+name) != "/"+name {
			return c, fmt.Errorf("read Secret %s/%s: %q is no path of a file", s.Namespace, s.Name, name)
		}
	}
	return c, nil
}
