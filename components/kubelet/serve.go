package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	requestx509 "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/components/kubelet/cgroups"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/server"
	"quintet.dev/quintet/components/kubelet/status"
	"quintet.dev/quintet/components/kubelet/volumes"
	"quintet.dev/quintet/internal/certs"
	"quintet.dev/quintet/internal/durable"
	"quintet.dev/quintet/internal/health"
	"quintet.dev/quintet/internal/zpages"
)

// serve starts the kubelet's API and its health endpoint.
func (k *Kubelet) serve(ctx context.Context, group *errgroup.Group, client kubernetes.Interface, engine runtime.Engine,
	p *parts) error {
	c := &k.config
	guard := &server.Guard{
		Client: client, ReviewTokens: c.WebhookAuthentication, Anonymous: c.AnonymousAuth, NodeName: k.name,
		AlwaysAllow: c.AuthorizationMode == "AlwaysAllow", TokenTTL: c.AuthenticationTTL, AllowTTL: c.AuthorizedTTL,
		DenyTTL: c.UnauthorizedTTL,
	}
	if c.ClientCAFile != "" {
		options, err := verifyOptions(c.ClientCAFile)
		if err != nil {
			return err
		}
		guard.Certificates = requestx509.New(options, requestx509.CommonNameUserConversion)
	}
	certificates, err := k.servingCertificates(ctx, group, client, p)
	if err != nil {
		return err
	}
	listener := c.Listener
	if listener == nil {
		if listener, err = net.Listen("tcp", net.JoinHostPort(c.Address, strconv.Itoa(int(c.Port)))); err != nil {
			return fmt.Errorf("serve the kubelet's API: %w", err)
		}
	}
	checks := []health.Check{p.syncloop()}
	config := server.Config{
		Pods: p.pods, Engine: engine, Clock: k.clock, NodeName: k.name, Guard: guard, Debug: c.EnableDebugHandlers,
		LogDir:        k.systemLogs(p),
		Configuration: c.shown(),
		IdleTimeout:   c.StreamingIdleTimeout, Metrics: p.metrics, Machine: k.machine(engine),
		Health:  checks,
		Program: zpages.New("kubelet", k.clock.Now, k.flags),
	}
	if !p.simulated.Processes {
		config.Swap = func(pod *v1.Pod, id string) cgroups.SwapUsage {
			return p.cgroups.Swap(pod.UID, status.QOS(pod), id)
		}
	}
	if p.storage != nil {
		config.Volumes = p.storage.volumes
		config.Disk = func() (volumes.Usage, error) { return volumes.FileSystem(c.RootDir) }
		config.System = system{proc: "/proc", engine: c.enginePID()}.read
		p.metrics.Registry.MustRegister(server.NewVolumeMetrics(p.pods, p.storage.volumes))
	}
	s := server.New(config)
	group.Go(func() error {
		return s.Run(ctx, listener, &tls.Config{
			GetCertificate: certificates, MinVersion: tls.VersionTLS12,
			ClientAuth: tls.RequestClientCert,
			NextProtos: []string{"http/1.1"}, // streams take the connection over, which HTTP/2 does not allow
		})
	})
	if c.HealthzPort <= 0 || c.Listener != nil {
		return nil
	}
	plain, err := net.Listen("tcp", net.JoinHostPort(c.HealthzBindAddress, strconv.Itoa(int(c.HealthzPort))))
	if err != nil {
		return fmt.Errorf("serve health (--healthz-port=0 turns it off): %w", err)
	}
	group.Go(func() error { return server.Health(ctx, plain, checks) })
	return nil
}

// syncloop is the check that pods are synced: the engine lists its containers.
func (p *parts) syncloop() health.Check {
	return health.Check{Name: "syncloop", Probe: func(*http.Request) error { return p.pods.Healthy() }}
}

// machine measures what the node uses: an engine that simulates it knows, and of others the control group does.
func (k *Kubelet) machine(engine runtime.Engine) func(context.Context) (runtime.Usage, error) {
	if simulated, ok := engine.(runtime.MachineStatistics); ok {
		return simulated.MachineStats
	}
	return func(context.Context) (runtime.Usage, error) {
		u, err := cgroups.Machine("/sys/fs/cgroup", "/proc")
		return runtime.Usage{CPU: u.CPU, MemoryBytes: u.Memory, WorkingSetBytes: u.WorkingSet, At: k.clock.Now()}, err
	}
}

// takeFlags returns what tells all flags with their values; nil without any. Of a flag no more is kept: a process may
// have thousands of kubelets.
func (c *Config) takeFlags() func() map[string]string {
	if c.flags == nil {
		return nil
	}
	var values [][2]string
	c.flags.VisitAll(func(f *pflag.Flag) { values = append(values, [2]string{f.Name, f.Value.String()}) })
	c.flags = nil
	return func() map[string]string {
		all := make(map[string]string, len(values))
		for _, v := range values {
			all[v[0]] = v[1]
		}
		return all
	}
}

func verifyOptions(file string) (x509.VerifyOptions, error) {
	options := requestx509.DefaultVerifyOptions()
	data, err := os.ReadFile(file)
	if err != nil {
		return options, fmt.Errorf("--client-ca-file: %w", err)
	}
	options.Roots = x509.NewCertPool()
	if !options.Roots.AppendCertsFromPEM(data) {
		return options, fmt.Errorf("--client-ca-file %s holds no certificate", file)
	}
	return options, nil
}

// servingCertificate reads the certificate that was given, or the kubelet's own, which it makes the first time.
func (k *Kubelet) servingCertificate(p *parts) (*tls.Certificate, error) {
	if k.config.TLSCertFile != "" {
		certificate, err := tls.LoadX509KeyPair(k.config.TLSCertFile, k.config.TLSPrivateKeyFile)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert-file: %w", err)
		}
		return &certificate, nil
	}
	if p.simulated.Files || k.config.Listener != nil {
		pair, err := selfSigned(k.name, p.pods.HostIPs)
		if err != nil {
			return nil, err
		}
		certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
		return &certificate, err
	}
	certFile, keyFile := filepath.Join(k.config.CertDir, "kubelet.crt"), filepath.Join(k.config.CertDir, "kubelet.key")
	certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err == nil {
		return &certificate, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("serving certificate (remove it to have another made): %w", err)
	}
	pair, err := selfSigned(k.name, p.pods.HostIPs)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(k.config.CertDir, 0o700); err != nil {
		return nil, fmt.Errorf("--cert-dir: %w", err)
	}
	// A part of one of them, as a full disk leaves it, would keep every later run from its start.
	if err := durable.ReplaceFile(certFile, pair.Cert, 0o600); err != nil {
		return nil, err
	}
	if err := durable.ReplaceFile(keyFile, pair.Key, 0o600); err != nil {
		return nil, err
	}
	certificate, err = tls.X509KeyPair(pair.Cert, pair.Key)
	return &certificate, err
}

func selfSigned(name string, ips []string) (certs.Pair, error) {
	authority, err := certs.NewAuthority(name + "-ca")
	if err != nil {
		return certs.Pair{}, err
	}
	return authority.Serving(name, append([]string{name, "localhost", "127.0.0.1"}, ips...)...)
}

// systemLogs is where the node's logs are, "" where there are none.
func (k *Kubelet) systemLogs(p *parts) string {
	if !k.config.EnableSystemLogs || p.simulated.Files {
		return ""
	}
	return systemLogDir
}

// systemLogDir is where programs of a machine write their logs.
const systemLogDir = "/var/log"
