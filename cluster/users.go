package cluster

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/rest"

	"quintet.dev/quintet/internal/certs"
)

// caKey is where API servers in containers keep the key of the cluster's authority, as kubeadm has it.
const caKey = "pki/ca.key"

// AddUser makes a client certificate of a user in groups, and returns client configuration with it
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates). The user may do
// what its roles allow: none, unless some are bound to it or to its groups.
func (c *Cluster) AddUser(ctx context.Context, name string, groups ...string) (*rest.Config, error) {
	if name == "" {
		return nil, errors.New("add user: a user needs a name")
	}
	authority, err := c.signer(ctx)
	if err != nil {
		return nil, fmt.Errorf("add user %s: %w", name, err)
	}
	pair, err := authority.Client(name, groups...)
	if err != nil {
		return nil, fmt.Errorf("add user %s: %w", name, err)
	}
	config := rest.AnonymousClientConfig(c.rest)
	config.CertData, config.KeyData = pair.Cert, pair.Key
	config.QPS, config.Burst = c.rest.QPS, c.rest.Burst
	return config, nil
}

// signer is the authority of client certificates, which API servers keep for processes that did not start the cluster.
func (c *Cluster) signer(ctx context.Context) (*certs.Authority, error) {
	c.changing.Lock()
	defer c.changing.Unlock()
	if c.authority != nil {
		return c.authority, nil
	}
	servers := c.Component(APIServer).Members
	if len(servers) == 0 {
		return nil, errors.New("the cluster has no API server")
	}
	cert, err := servers[0].instance.ReadFile(ctx, "pki/ca.crt")
	if err != nil {
		return nil, err
	}
	key, err := servers[0].instance.ReadFile(ctx, caKey)
	if err != nil {
		return nil, err
	}
	c.authority, err = certs.LoadAuthority(certs.Pair{Cert: cert, Key: key})
	return c.authority, err
}
