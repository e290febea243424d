// Package controllers is the controller manager: the loops that bring a cluster's state to what its objects ask for.
// list.go is the table of contents.
package controllers

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/controllers/nodeipam"
)

// Config is what a controller manager is made from. DefaultConfig has upstream's defaults; the flags of the same
// names are documented at https://kubernetes.io/docs/reference/command-line-tools-reference/kube-controller-manager/.
type Config struct {
	// Client reaches the API server, instead of Kubeconfig.
	Client *rest.Config
	// Kubeconfig is the file that names the API server and who the manager is there.
	Kubeconfig string
	// AuthenticationKubeconfig and AuthorizationKubeconfig are read at start, so that a wrong one is found early.
	// Health and metrics are served to everyone who reaches the port, so nothing more is asked of them.
	AuthenticationKubeconfig, AuthorizationKubeconfig string
	KubeAPIQPS                                        float32 // requests per second of each controller; < 0: no limit
	KubeAPIBurst                                      int
	// MinResyncPeriod is how often every object is looked at again without an event.
	MinResyncPeriod time.Duration

	// Controllers are the names to run: "*" is all, "-name" is not that one.
	Controllers []string
	// UseServiceAccountCredentials lets each controller speak as a service account of its own.
	UseServiceAccountCredentials bool
	// Clock is where the controllers take the time from; the machine's if nil.
	Clock clock.WithTicker

	// BindAddress and SecurePort are where health and metrics are served; no port, no server.
	BindAddress                    string
	SecurePort                     int
	TLSCertFile, TLSPrivateKeyFile string

	AllocateNodeCIDRs     bool
	ClusterCIDR           string // at most one range per address family, comma-separated
	ServiceClusterIPRange string
	NodeCIDRMaskSize      int // of the only address family; 0: the defaults below
	NodeCIDRMaskSizeIPv4  int
	NodeCIDRMaskSizeIPv6  int

	RootCAFile                   string
	ServiceAccountPrivateKeyFile string

	ConcurrentDeploymentSyncs int
	ConcurrentReplicaSetSyncs int
	ConcurrentNamespaceSyncs  int
}

// DefaultConfig returns upstream's defaults.
func DefaultConfig() Config {
	return Config{
		KubeAPIQPS:                20,
		KubeAPIBurst:              30,
		MinResyncPeriod:           12 * time.Hour,
		Controllers:               []string{"*"},
		BindAddress:               "0.0.0.0",
		SecurePort:                10257,
		NodeCIDRMaskSizeIPv4:      24,
		NodeCIDRMaskSizeIPv6:      64,
		ConcurrentDeploymentSyncs: 5,
		ConcurrentReplicaSetSyncs: 5,
		ConcurrentNamespaceSyncs:  10,
	}
}

// validate says what is wrong with the whole, not only the first thing.
func (c *Config) validate() error {
	var errs []error
	if c.Client == nil && c.Kubeconfig == "" {
		errs = append(errs, errors.New("--kubeconfig is required: it names the API server and the manager's identity"))
	}
	for flag, file := range map[string]string{
		"authentication-kubeconfig": c.AuthenticationKubeconfig,
		"authorization-kubeconfig":  c.AuthorizationKubeconfig,
	} {
		if file == "" {
			continue
		}
		if _, err := clientcmd.LoadFromFile(file); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	if _, err := c.enabled(); err != nil {
		errs = append(errs, err)
	}
	if c.SecurePort < 0 || c.SecurePort > 65535 {
		errs = append(errs, fmt.Errorf("--secure-port %d: use a port number, or 0 to serve nothing", c.SecurePort))
	}
	if c.BindAddress != "" && net.ParseIP(c.BindAddress) == nil {
		errs = append(errs, fmt.Errorf("--bind-address %q is not an IP address", c.BindAddress))
	}
	if (c.TLSCertFile == "") != (c.TLSPrivateKeyFile == "") {
		errs = append(errs, errors.New("--tls-cert-file and --tls-private-key-file go together"))
	}
	if _, err := c.nodeCIDRs(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// rest returns how the API server is reached; the result belongs to the caller.
func (c *Config) rest() (*rest.Config, error) {
	if c.Client != nil {
		config := rest.CopyConfig(c.Client)
		config.QPS, config.Burst = c.KubeAPIQPS, c.KubeAPIBurst
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	config.QPS, config.Burst = c.KubeAPIQPS, c.KubeAPIBurst
	return config, nil
}

// nodeCIDRs reads the flags of node address management.
func (c *Config) nodeCIDRs() (nodeipam.Options, error) {
	o := nodeipam.Options{MaskIPv4: c.NodeCIDRMaskSizeIPv4, MaskIPv6: c.NodeCIDRMaskSizeIPv6}
	if !c.AllocateNodeCIDRs {
		return o, nil
	}
	var err error
	if o.ClusterCIDRs, err = prefixes("cluster-cidr", c.ClusterCIDR); err != nil {
		return o, err
	}
	if o.ServiceCIDRs, err = prefixes("service-cluster-ip-range", c.ServiceClusterIPRange); err != nil {
		return o, err
	}
	switch {
	case len(o.ClusterCIDRs) == 0:
		return o, errors.New("--allocate-node-cidrs needs --cluster-cidr, the range to allocate from")
	case len(o.ClusterCIDRs) > 2, len(o.ClusterCIDRs) == 2 && o.ClusterCIDRs[0].Addr().Is4() == o.ClusterCIDRs[1].Addr().Is4():
		return o, fmt.Errorf("--cluster-cidr %s: give one range, or one of each address family", c.ClusterCIDR)
	case len(o.ClusterCIDRs) == 2 && c.NodeCIDRMaskSize != 0:
		return o, errors.New("--node-cidr-mask-size can't be used with two address families: use --node-cidr-mask-size-ipv4 and -ipv6")
	}
	if c.NodeCIDRMaskSize != 0 {
		o.MaskIPv4, o.MaskIPv6 = c.NodeCIDRMaskSize, c.NodeCIDRMaskSize
	}
	return o, nil
}

func prefixes(flag, text string) ([]netip.Prefix, error) {
	var found []netip.Prefix
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", flag, err)
		}
		found = append(found, prefix.Masked())
	}
	return found, nil
}

// read returns the content of the file that flag names; nil if it names none.
func read(flag, file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return data, nil
}
