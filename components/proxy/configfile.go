package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	"sigs.k8s.io/yaml"
)

// ReadFile takes over the KubeProxyConfiguration in c.ConfigFile, if one is given. A field that is not known, or is set
// and not supported, is an error that names it. What belongs to other modes means nothing to this one.
func (c *Config) ReadFile() error {
	if c.ConfigFile == "" {
		return nil
	}
	data, err := os.ReadFile(c.ConfigFile)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	var file proxyconfig.KubeProxyConfiguration
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return fmt.Errorf("--config %s: %w", c.ConfigFile, err)
	}
	if file.APIVersion != proxyconfig.SchemeGroupVersion.String() || file.Kind != "KubeProxyConfiguration" {
		return fmt.Errorf("--config %s: want apiVersion %s and kind KubeProxyConfiguration, got %q and %q",
			c.ConfigFile, proxyconfig.SchemeGroupVersion, file.APIVersion, file.Kind)
	}
	if err := unsupported(&file); err != nil {
		return fmt.Errorf("--config %s: %w", c.ConfigFile, err)
	}
	c.apply(&file)
	return nil
}

func unsupported(f *proxyconfig.KubeProxyConfiguration) error {
	var errs []error
	for name, set := range map[string]bool{
		"featureGates": len(f.FeatureGates) > 0, "portRange": f.PortRange != "", "windowsRunAsService": f.WindowsRunAsService,
		"showHiddenMetricsForVersion":         f.ShowHiddenMetricsForVersion != "",
		"clientConnection.acceptContentTypes": f.ClientConnection.AcceptContentTypes != "",
	} {
		if set {
			errs = append(errs, fmt.Errorf("%s is not supported", name))
		}
	}
	return errors.Join(errs...)
}

// apply takes over what the file sets; what it leaves out has upstream's default, whatever a flag says.
func (c *Config) apply(f *proxyconfig.KubeProxyConfiguration) {
	defaults := NewConfig()
	c.Kubeconfig = f.ClientConnection.Kubeconfig
	c.QPS, c.Burst = cmp.Or(f.ClientConnection.QPS, defaults.QPS), cmp.Or(f.ClientConnection.Burst, defaults.Burst)
	c.HostnameOverride = cmp.Or(c.HostnameOverride, f.HostnameOverride)
	c.Mode = cmp.Or(string(f.Mode), defaults.Mode)
	c.BindAddress = cmp.Or(f.BindAddress, defaults.BindAddress)
	c.HealthzAddress = cmp.Or(f.HealthzBindAddress, defaults.HealthzAddress)
	c.MetricsAddress = cmp.Or(f.MetricsBindAddress, defaults.MetricsAddress)
	c.Profiling = f.EnableProfiling
	c.ClusterCIDR = f.ClusterCIDR
	c.DetectLocalMode = cmp.Or(string(f.DetectLocalMode), defaults.DetectLocalMode)
	c.PodBridge, c.PodPrefix = f.DetectLocal.BridgeInterface, f.DetectLocal.InterfaceNamePrefix
	c.NodePorts = f.NodePortAddresses
	c.MasqueradeBit = or(f.NFTables.MasqueradeBit, defaults.MasqueradeBit)
	c.MasqueradeAll = f.NFTables.MasqueradeAll
	c.MinSyncPeriod = f.NFTables.MinSyncPeriod.Duration
	c.SyncPeriod = cmp.Or(f.NFTables.SyncPeriod.Duration, defaults.SyncPeriod)
	c.ResyncPeriod = cmp.Or(f.ConfigSyncPeriod.Duration, defaults.ResyncPeriod)
	c.OOMScoreAdj = or(f.OOMScoreAdj, defaults.OOMScoreAdj)
	c.Conntrack = Conntrack{
		MaxPerCore:     or(f.Conntrack.MaxPerCore, defaults.Conntrack.MaxPerCore),
		Min:            or(f.Conntrack.Min, defaults.Conntrack.Min),
		TCPEstablished: or(f.Conntrack.TCPEstablishedTimeout, metav1.Duration{Duration: defaults.Conntrack.TCPEstablished}).Duration,
		TCPCloseWait:   or(f.Conntrack.TCPCloseWaitTimeout, metav1.Duration{Duration: defaults.Conntrack.TCPCloseWait}).Duration,
		TCPBeLiberal:   f.Conntrack.TCPBeLiberal,
		UDP:            f.Conntrack.UDPTimeout.Duration,
		UDPStream:      f.Conntrack.UDPStreamTimeout.Duration,
	}
}

func or[T any](pointer *T, otherwise T) T {
	if pointer == nil {
		return otherwise
	}
	return *pointer
}

// configuration is c as a KubeProxyConfiguration.
func (c *Config) configuration() *proxyconfig.KubeProxyConfiguration {
	f := &proxyconfig.KubeProxyConfiguration{
		TypeMeta:         metav1.TypeMeta{Kind: "KubeProxyConfiguration", APIVersion: proxyconfig.SchemeGroupVersion.String()},
		HostnameOverride: c.HostnameOverride, BindAddress: c.BindAddress, HealthzBindAddress: c.HealthzAddress,
		MetricsBindAddress: c.MetricsAddress, EnableProfiling: c.Profiling, Mode: proxyconfig.ProxyMode(c.Mode),
		DetectLocalMode: proxyconfig.LocalMode(c.DetectLocalMode), ClusterCIDR: c.ClusterCIDR, NodePortAddresses: c.NodePorts,
		OOMScoreAdj: &c.OOMScoreAdj, ConfigSyncPeriod: metav1.Duration{Duration: c.ResyncPeriod},
		DetectLocal: proxyconfig.DetectLocalConfiguration{BridgeInterface: c.PodBridge, InterfaceNamePrefix: c.PodPrefix},
		NFTables: proxyconfig.KubeProxyNFTablesConfiguration{
			MasqueradeBit: &c.MasqueradeBit, MasqueradeAll: c.MasqueradeAll,
			SyncPeriod: metav1.Duration{Duration: c.SyncPeriod}, MinSyncPeriod: metav1.Duration{Duration: c.MinSyncPeriod},
		},
		Conntrack: proxyconfig.KubeProxyConntrackConfiguration{
			MaxPerCore: &c.Conntrack.MaxPerCore, Min: &c.Conntrack.Min, TCPBeLiberal: c.Conntrack.TCPBeLiberal,
			TCPEstablishedTimeout: &metav1.Duration{Duration: c.Conntrack.TCPEstablished},
			TCPCloseWaitTimeout:   &metav1.Duration{Duration: c.Conntrack.TCPCloseWait},
			UDPTimeout:            metav1.Duration{Duration: c.Conntrack.UDP},
			UDPStreamTimeout:      metav1.Duration{Duration: c.Conntrack.UDPStream},
		},
	}
	f.ClientConnection.Kubeconfig, f.ClientConnection.QPS, f.ClientConnection.Burst = c.Kubeconfig, c.QPS, c.Burst
	return f
}
