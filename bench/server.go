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
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/internal/certs"
	"quintet.dev/quintet/internal/kubeconfig"
)

// rig is API servers under measurement, with an etcd of their own or none, and the files that they need.
type rig struct {
	dir     string
	ca      *certs.Authority
	etcd    *process
	etcdURL string
	storage []string // flags
	servers []*apiServer
	raw     raw // once it is measured
}

// apiServer is one of a rig. ready is how long its start took, and startCPU how much of the processor that took.
type apiServer struct {
	*process
	url             string
	ready, startCPU time.Duration
}

// starts is how often a start is measured: the shortest counts, which noise disturbs least.
const starts = 5

// newRig starts an API server, on a fresh etcd or on its memory store. It does so several times, and keeps the last.
func newRig(ctx context.Context, o Options, withEtcd bool) (*rig, error) {
	var best *apiServer
	for i := 1; ; i++ {
		r, err := startRig(ctx, o, withEtcd)
		if err != nil {
			return nil, err
		}
		s := r.servers[0]
		if best != nil {
			s.ready, s.startCPU = min(s.ready, best.ready), min(s.startCPU, best.startCPU)
		}
		if best = s; i == starts {
			return r, nil
		}
		r.close()
	}
}

func startRig(ctx context.Context, o Options, withEtcd bool) (r *rig, err error) {
	r = &rig{storage: []string{"--storage-backend=memory"}}
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
	if err = r.writeFiles(); err != nil {
		return r, err
	}
	if withEtcd {
		if err = r.startEtcd(ctx, o); err != nil {
			return r, err
		}
		r.storage = []string{"--etcd-servers=" + r.etcdURL}
	}
	return r, r.startServer(ctx, o)
}

func (r *rig) close() {
	for _, s := range r.servers {
		s.close()
	}
	if r.etcd != nil {
		r.etcd.close()
	}
	if r.dir != "" {
		_ = os.RemoveAll(r.dir)
	}
}

func (r *rig) startEtcd(ctx context.Context, o Options) error {
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	r.etcdURL = fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	peerURL := fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	r.etcd, err = start(o.program("etcd"), "--name=bench", "--data-dir="+filepath.Join(r.dir, "etcd"),
		"--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+r.etcdURL, "--advertise-client-urls="+r.etcdURL,
		"--listen-peer-urls="+peerURL, "--initial-advertise-peer-urls="+peerURL, "--initial-cluster=bench="+peerURL)
	if err != nil {
		return err
	}
	_, err = r.etcd.ready(ctx, http.DefaultClient, r.etcdURL+"/health")
	return err
}

func (r *rig) writeFiles() error {
	serving, err := r.ca.Serving("kube-apiserver", "localhost", "127.0.0.1", "kubernetes", "kubernetes.default.svc")
	if err != nil {
		return err
	}
	signing, err := certs.SigningKey()
	if err != nil {
		return err
	}
	files := map[string][]byte{"ca.crt": r.ca.Cert, "tls.crt": serving.Cert, "tls.key": serving.Key, "sa.key": signing.Key,
		"sa.pub": signing.Cert}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(r.dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// startServer adds an API server to the rig.
func (r *rig) startServer(ctx context.Context, o Options) error {
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	file := func(name string) string { return filepath.Join(r.dir, name) }
	s := &apiServer{url: fmt.Sprintf("https://127.0.0.1:%d", ports[0])}
	s.process, err = start(o.program(apiServerProgram), append(slices.Clone(r.storage),
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[0]), "--advertise-address=127.0.0.1",
		"--tls-cert-file="+file("tls.crt"), "--tls-private-key-file="+file("tls.key"), "--client-ca-file="+file("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+file("sa.pub"),
		"--service-account-signing-key-file="+file("sa.key"), "--service-cluster-ip-range=10.96.0.0/16",
		"--authorization-mode=Node,RBAC")...)
	if err != nil {
		return err
	}
	r.servers = append(r.servers, s)
	client, err := r.probe()
	if err != nil {
		return err
	}
	if s.ready, err = s.process.ready(ctx, client, s.url+"/readyz"); err != nil {
		return err
	}
	s.startCPU, err = cpu(s.pid())
	return err
}

// probe returns an HTTP client of the cluster's administrator.
func (r *rig) probe() (*http.Client, error) {
	identity, err := r.identity()
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: identity}}, nil
}

func (r *rig) identity() (*tls.Config, error) {
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
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}, nil
}

// clients returns clients of a server, each with a connection of its own, that speak protobuf and are not throttled.
func (r *rig) clients(s *apiServer, n int) ([]*kubernetes.Clientset, error) {
	out := make([]*kubernetes.Clientset, n)
	for i := range out {
		var err error
		if out[i], err = r.client(s, protobuf); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (r *rig) client(s *apiServer, contentType string) (*kubernetes.Clientset, error) {
	config, err := r.config(s, contentType)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

func (r *rig) config(s *apiServer, contentType string) (*rest.Config, error) {
	admin, err := r.ca.Client("bench", "system:masters")
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            s.url,
		QPS:             -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: r.ca.Cert, CertData: admin.Cert, KeyData: admin.Key},
		ContentConfig:   rest.ContentConfig{ContentType: contentType, AcceptContentTypes: contentType},
		Dial:            (&net.Dialer{}).DialContext, // a dialer of its own keeps client-go from sharing the connection
	}, nil
}

// kubeconfig writes a file by which a client reaches the API server.
func (r *rig) kubeconfig(name, user string, groups ...string) (string, error) {
	id, err := r.ca.Client(user, groups...)
	if err != nil {
		return "", err
	}
	content, err := kubeconfig.Encode("bench", r.servers[0].url, r.ca.Cert,
		kubeconfig.Identity{User: user, Cert: id.Cert, Key: id.Key})
	if err != nil {
		return "", err
	}
	file := filepath.Join(r.dir, name)
	return file, os.WriteFile(file, content, 0o600)
}
