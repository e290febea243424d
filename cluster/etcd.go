package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// snapshotFile is where a member of etcd finds the snapshot that its data are made from, if there is one.
const snapshotFile = "restore.db"

// etcdTimeout is how long a member of etcd may take to say that it is there.
const etcdTimeout = 10 * time.Second

// etcdSnapshot has the first member that answers write a snapshot, with the certificate of an API server.
func (c *Cluster) etcdSnapshot(ctx context.Context) ([]byte, error) {
	config, err := c.etcdTLS(ctx)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, m := range c.Component(Etcd).Members {
		content, err := c.snapshotOf(ctx, m, config)
		if err == nil {
			return content, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
	}
	return nil, errors.Join(errs...)
}

func (c *Cluster) snapshotOf(ctx context.Context, m *Member, config *tls.Config) ([]byte, error) {
	endpoint, err := c.backend.Endpoint(ctx, m.instance, etcdClientPort)
	if err != nil {
		return nil, err
	}
	if config != nil {
		endpoint = "https://" + endpoint // the client takes an address alone for one without TLS
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, TLS: config, Logger: zap.NewNop(),
		Context: ctx})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	asked, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	if _, err := client.Status(asked, endpoint); err != nil { // a stream would wait for a member that is down
		return nil, err
	}
	content, err := client.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	return io.ReadAll(content)
}

// etcdTLS is nil in this process, where etcd is reached without.
func (c *Cluster) etcdTLS(ctx context.Context) (*tls.Config, error) {
	if c.config.inProcess {
		return nil, nil
	}
	servers := c.Component(APIServer).Members
	if len(servers) == 0 {
		return nil, errors.New("the cluster has no API server, whose certificate etcd demands")
	}
	contents := map[string][]byte{"pki/etcd/ca.crt": nil, "pki/apiserver-etcd-client.crt": nil,
		"pki/apiserver-etcd-client.key": nil}
	for name := range contents {
		content, err := servers[0].instance.ReadFile(ctx, name)
		if err != nil {
			return nil, err
		}
		contents[name] = content
	}
	pair, err := tls.X509KeyPair(contents["pki/apiserver-etcd-client.crt"], contents["pki/apiserver-etcd-client.key"])
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(contents["pki/etcd/ca.crt"]) {
		return nil, errors.New("the authority of etcd can't be read")
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool}, nil
}

// restoreEtcd gives stopped members a snapshot to start from.
func (c *Cluster) restoreEtcd(ctx context.Context, content []byte) error {
	if _, own := c.config.images[Etcd]; own && !c.config.inProcess {
		return errors.New("etcd's image is not Quintet's, whose program starts from a snapshot")
	}
	return c.Component(Etcd).each(func(m *Member) error { return m.instance.WriteFile(ctx, snapshotFile, content) })
}
