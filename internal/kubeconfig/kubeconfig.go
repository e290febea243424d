// Package kubeconfig writes kubeconfig files and converts them to client configuration.
package kubeconfig

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Identity holds the credentials of a kubeconfig: a client certificate or a bearer token.
type Identity struct {
	User  string
	Cert  []byte // PEM
	Key   []byte // PEM
	Token string
}

// Encode renders a kubeconfig with one cluster, one user and one current context, all named after cluster.
// ca is PEM; the certificates are embedded, so that the file can be moved.
func Encode(cluster, server string, ca []byte, id Identity) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[id.User] = &clientcmdapi.AuthInfo{
		ClientCertificateData: id.Cert,
		ClientKeyData:         id.Key,
		Token:                 id.Token,
	}
	config.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: id.User}
	config.CurrentContext = cluster
	return clientcmd.Write(*config)
}

// Load reads the client configuration in file. qps < 0 disables client-side throttling.
func Load(file string, qps float32) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %q: %w", file, err)
	}
	config.QPS = qps
	return config, nil
}
