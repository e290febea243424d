package bench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/internal/certs"
)

// rig is an API server under measurement, with an etcd of its own or none, and the files that both need.
type rig struct {
	dir     string
	ca      *certs.Authority
	etcd    *process
	etcdURL string
	server  *process
	url     string
	ready   time.Duration
}

// newRig starts an API server, on a fresh etcd or on its memory store.
func newRig(ctx context.Context, o Options, withEtcd bool) (r *rig, err error) {
	r = &rig{}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if r.dir, err = os.MkdirTemp("", "quintet-bench-"); err != nil {
		return r, err
	}
	if r.ca, err = certs.NewAuthority("bench"); err != nil {
		return r, err
	}
	storage := []string{"--storage-backend=memory"}
	if withEtcd {
		if err = r.startEtcd(ctx, o); err != nil {
			return r, err
		}
		storage = []string{"--etcd-servers=" + r.etcdURL}
	}
	return r, r.startServer(ctx, o, storage)
}

func (r *rig) close() {
	for _, p := range []*process{r.server, r.etcd} {
		if p != nil {
			p.close()
		}
	}
	if r.dir != "" {
		_ = os.RemoveAll(r.dir)
	}
}

func (r *rig) startEtcd(ctx context.Context, o Options) error {
	client, err := freePort()
	if err != nil {
		return err
	}
	peer, err := freePort()
	if err != nil {
		return err
	}
	r.etcdURL = fmt.Sprintf("http://127.0.0.1:%d", client)
	peerURL := fmt.Sprintf("http://127.0.0.1:%d", peer)
	r.etcd, err = start(o.Bin, "etcd", "--name=bench", "--data-dir="+filepath.Join(r.dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+r.etcdURL, "--advertise-client-urls="+r.etcdURL,
		"--listen-peer-urls="+peerURL, "--initial-advertise-peer-urls="+peerURL, "--initial-cluster=bench="+peerURL)
	if err != nil {
		return err
	}
	_, err = r.etcd.ready(ctx, http.DefaultClient, r.etcdURL+"/health")
	return err
}

func (r *rig) startServer(ctx context.Context, o Options, storage []string) error {
	serving, err := r.ca.Serving("kube-apiserver", "localhost", "127.0.0.1", "kubernetes", "kubernetes.default.svc")
	if err != nil {
		return err
	}
	signing, err := certs.SigningKey()
	if err != nil {
		return err
	}
	files := map[string][]byte{"ca.crt": r.ca.Cert, "tls.crt": serving.Cert, "tls.key": serving.Key, "sa.key": signing.Key, "sa.pub": signing.Cert}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(r.dir, name), content, 0o600); err != nil {
			return err
		}
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	file := func(name string) string { return filepath.Join(r.dir, name) }
	r.url = fmt.Sprintf("https://127.0.0.1:%d", port)
	r.server, err = start(o.Bin, "kube-apiserver", append(storage,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--advertise-address=127.0.0.1",
		"--tls-cert-file="+file("tls.crt"), "--tls-private-key-file="+file("tls.key"), "--client-ca-file="+file("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+file("sa.pub"),
		"--service-account-signing-key-file="+file("sa.key"), "--service-cluster-ip-range=10.96.0.0/16",
		"--authorization-mode=Node,RBAC")...)
	if err != nil {
		return err
	}
	client, err := r.probe()
	if err != nil {
		return err
	}
	r.ready, err = r.server.ready(ctx, client, r.url+"/readyz")
	return err
}

// probe returns an HTTP client of the cluster's administrator.
func (r *rig) probe() (*http.Client, error) {
	admin, err := r.ca.Client("bench", "system:masters")
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(admin.Cert, admin.Key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(r.ca.Cert)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}}, nil
}

// client returns a client with a connection of its own that speaks contentType and is not throttled.
func (r *rig) client(contentType string) (*kubernetes.Clientset, error) {
	admin, err := r.ca.Client("bench", "system:masters")
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(&rest.Config{
		Host:            r.url,
		QPS:             -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: r.ca.Cert, CertData: admin.Cert, KeyData: admin.Key},
		ContentConfig:   rest.ContentConfig{ContentType: contentType, AcceptContentTypes: contentType},
		Dial:            (&net.Dialer{}).DialContext, // a dialer of its own keeps client-go from sharing the connection
	})
}
