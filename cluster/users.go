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

// signer is the authority of client certificates.
func (c *Cluster) signer(ctx context.Context) (*certs.Authority, error) {
	ids, err := c.identities(ctx)
	if err != nil {
		return nil, err
	}
	return ids.cluster, nil
}

// identities are the cluster's: those of client certificates and service accounts are kept by API servers, for
// processes that did not start the cluster.
func (c *Cluster) identities(ctx context.Context) (*identities, error) {
	c.loadingIDs.Lock()
	defer c.loadingIDs.Unlock()
	if c.ids != nil {
		return c.ids, nil
	}
	servers := c.Component(APIServer).Members
	if len(servers) == 0 {
		return nil, errors.New("the cluster has no API server")
	}
	contents := map[string][]byte{"pki/ca.crt": nil, caKey: nil, "pki/sa.pub": nil, "pki/sa.key": nil}
	for name := range contents {
		content, err := servers[0].instance.ReadFile(ctx, name)
		if err != nil {
			return nil, err
		}
		contents[name] = content
	}
	authority, err := certs.LoadAuthority(certs.Pair{Cert: contents["pki/ca.crt"], Key: contents[caKey]})
	if err != nil {
		return nil, err
	}
	c.ids = &identities{cluster: authority,
		serviceAccounts: certs.Pair{Cert: contents["pki/sa.pub"], Key: contents["pki/sa.key"]}}
	return c.ids, nil
}
