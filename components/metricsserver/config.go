// Package metricsserver serves metrics.k8s.io: what nodes and pods use now, as kubelets tell. Autoscalers and
// `kubectl top` read it (https://kubernetes-sigs.github.io/metrics-server/).
package metricsserver

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/internal/delegated"
	"quintet.dev/quintet/internal/diagnostics"
	"quintet.dev/quintet/internal/kubeconfig"
	"quintet.dev/quintet/internal/zpages"
)

// Config of a metrics server. NewConfig has the defaults.
type Config struct {
	// Kubeconfig tells how to reach the API server; "" is the configuration of a pod. Its client certificate or token
	// is shown to kubelets, too, if there is none for them.
	Kubeconfig string
	// Resolution is how often kubelets are scraped.
	Resolution time.Duration
	// NodeSelector limits which nodes are scraped.
	NodeSelector string
	Kubelet      Kubelet

	// SecurePort of BindAddress serves the API over TLS. Listener, if not nil, is used instead, and is closed by Run.
	// Without a certificate, a self-signed one is made.
	BindAddress string
	SecurePort  int
	Listener    net.Listener
	Serving     diagnostics.Serving
	// Access configures authentication and authorization of requests.
	Access delegated.Options

	// CommandLine is all flags with their values, for /flagz, which isn't there without.
	CommandLine func() map[string]string
	// Clock is what time it is.
	Clock clock.WithTicker
}

// Kubelet is how kubelets are reached.
type Kubelet struct {
	Port int
	// UseNodeStatusPort takes the port that the node's status tells.
	UseNodeStatusPort bool
	// AddressTypes are those of the addresses of a node to use, the preferred ones first.
	AddressTypes []string
	// InsecureTLS does not verify serving certificates. CAFile has their authorities; "" are those of the kubeconfig.
	InsecureTLS bool
	CAFile      string
	// CertFile and KeyFile are the client certificate; "" is what the kubeconfig has.
	CertFile, KeyFile string
	// Timeout is how long one scrape may take.
	Timeout time.Duration
}

// leastResolution keeps kubelets from being asked all the time. Upstream's is 10 s.
const leastResolution = time.Second

// NewConfig returns upstream's defaults.
func NewConfig() *Config {
	c := &Config{
		Resolution: time.Minute, BindAddress: "0.0.0.0", SecurePort: 443, Access: delegated.Default(),
		Clock: clock.RealClock{},
		Kubelet: Kubelet{
			Port: 10250, Timeout: 10 * time.Second,
			AddressTypes: []string{string(v1.NodeHostName), string(v1.NodeInternalDNS), string(v1.NodeInternalIP),
				string(v1.NodeExternalDNS), string(v1.NodeExternalIP)},
		},
	}
	c.Access.TolerateLookupFailure = true // the API server may come later
	return c
}

// AddFlags binds upstream's flags.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig,
		"Kubeconfig file that tells how to reach the API server; without one, the configuration of a pod is used.")
	fs.DurationVar(&c.Resolution, "metric-resolution", c.Resolution, "How often kubelets are scraped.")
	fs.StringVar(&c.NodeSelector, "node-selector", c.NodeSelector, "Label selector of the nodes to scrape.")
	k := &c.Kubelet
	fs.IntVar(&k.Port, "kubelet-port", k.Port, "Port of kubelets.")
	fs.BoolVar(&k.UseNodeStatusPort, "kubelet-use-node-status-port", k.UseNodeStatusPort,
		"Use the port that the status of the node tells, before --kubelet-port.")
	fs.StringSliceVar(&k.AddressTypes, "kubelet-preferred-address-types", k.AddressTypes,
		"Types of the addresses of nodes to use, the preferred ones first.")
	fs.BoolVar(&k.InsecureTLS, "kubelet-insecure-tls", k.InsecureTLS,
		"Don't verify the serving certificates of kubelets.")
	fs.StringVar(&k.CAFile, "kubelet-certificate-authority", k.CAFile,
		"Authorities (PEM) of the serving certificates of kubelets; by default those of the API server.")
	fs.StringVar(&k.CertFile, "kubelet-client-certificate", k.CertFile,
		"Client certificate (PEM) for kubelets; by default that of the kubeconfig.")
	fs.StringVar(&k.KeyFile, "kubelet-client-key", k.KeyFile, "Key (PEM) of --kubelet-client-certificate.")
	fs.DurationVar(&k.Timeout, "kubelet-request-timeout", k.Timeout, "How long a kubelet may take to answer.")
	fs.StringVar(&c.BindAddress, "bind-address", c.BindAddress, "Address that serves the API.")
	fs.IntVar(&c.SecurePort, "secure-port", c.SecurePort, "Port that serves the API over TLS.")
	c.Serving.AddFlags(fs)
	c.Access.AddFlags(fs)
	c.CommandLine = zpages.Flags(fs)
}

func (c *Config) validate() error {
	k := &c.Kubelet
	_, err := labels.Parse(c.NodeSelector)
	switch {
	case err != nil:
		return fmt.Errorf("--node-selector: %w", err)
	case c.Resolution < leastResolution:
		return fmt.Errorf("--metric-resolution %v: use at least %v", c.Resolution, leastResolution)
	case k.Timeout <= 0:
		return fmt.Errorf("--kubelet-request-timeout %v: use a duration greater than 0", k.Timeout)
	case k.Port < 1 || k.Port > 65535:
		return fmt.Errorf("--kubelet-port %d: ports are between 1 and 65535", k.Port)
	case c.Listener == nil && (c.SecurePort < 1 || c.SecurePort > 65535):
		return fmt.Errorf("--secure-port %d: ports are between 1 and 65535", c.SecurePort)
	case k.InsecureTLS && k.CAFile != "":
		return errors.New("--kubelet-insecure-tls and --kubelet-certificate-authority exclude each other")
	case (k.CertFile == "") != (k.KeyFile == ""):
		return errors.New("--kubelet-client-certificate and --kubelet-client-key go together")
	case len(k.AddressTypes) == 0:
		return errors.New("--kubelet-preferred-address-types: name at least one type")
	}
	for _, address := range k.AddressTypes {
		if !slices.Contains(NewConfig().Kubelet.AddressTypes, address) {
			return fmt.Errorf("--kubelet-preferred-address-types: there is no type %q", address)
		}
	}
	return errors.Join(c.Access.Validate(), c.Serving.Validate())
}

// connection to the API server.
func (c *Config) connection() (*rest.Config, error) {
	var config *rest.Config
	var err error
	if c.Kubeconfig == "" {
		config, err = rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("no API server: give --kubeconfig, or run in a pod")
		}
	} else {
		config, err = kubeconfig.Load(c.Kubeconfig, -1)
	}
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 20, 40
	return kubeconfig.AddUserAgent(config, "metrics-server", "metrics-server"), nil
}

// kubelets is the connection to kubelets, which have the identity and the authorities of the API server's where nothing
// else is said.
func (c *Config) kubelets(api *rest.Config) *rest.Config {
	k := &c.Kubelet
	config := rest.CopyConfig(api)
	config.TLSClientConfig.ServerName = ""
	switch {
	case k.InsecureTLS:
		config.Insecure, config.CAFile, config.CAData = true, "", nil
	case k.CAFile != "":
		config.CAFile, config.CAData = k.CAFile, nil
	}
	if k.CertFile != "" {
		config = rest.AnonymousClientConfig(config)
		config.CertFile, config.KeyFile = k.CertFile, k.KeyFile
	}
	return config
}
