package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentconfig "k8s.io/component-base/config/v1alpha1"
	logsapi "k8s.io/component-base/logs/api/v1"
	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	"sigs.k8s.io/yaml"
)

// Upstream's ports.
const (
	healthzPort = "10256"
	metricsPort = "10249"
)

// ReadFile takes over the KubeProxyConfiguration in c.ConfigFile, if one is given. A field that is not known, or is set
// and not supported, is an error that names it. What belongs to other modes means nothing to this one. Logging is the
// program's: a file that sets it must have come by the flag --config.
func (c *Config) ReadFile() error {
	if c.ConfigFile == "" {
		return nil
	}
	file, err := readFile(c.ConfigFile)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	if c.loggingFile != c.ConfigFile && setsLogging(file.Logging) {
		return fmt.Errorf("%s: logging is set, and not by the flag --config", c.ConfigFile)
	}
	c.apply(file)
	return nil
}

func setsLogging(l logsapi.LoggingConfiguration) bool {
	flush := l.FlushFrequency.Duration.Duration
	return l.Format != "" && l.Format != logsapi.DefaultLogFormat || l.Verbosity != 0 || len(l.VModule) > 0 ||
		flush != 0 && flush != logsapi.LogFlushFreqDefault
}

func readFile(path string) (*proxyconfig.KubeProxyConfiguration, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file proxyconfig.KubeProxyConfiguration
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if file.APIVersion != proxyconfig.SchemeGroupVersion.String() || file.Kind != "KubeProxyConfiguration" {
		return nil, fmt.Errorf("%s: want apiVersion %s and kind KubeProxyConfiguration, got %q and %q",
			path, proxyconfig.SchemeGroupVersion, file.APIVersion, file.Kind)
	}
	if err := unsupported(&file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &file, nil
}

func unsupported(f *proxyconfig.KubeProxyConfiguration) error {
	var errs []error
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"showHiddenMetricsForVersion", f.ShowHiddenMetricsForVersion != ""}, {"portRange", f.PortRange != ""},
		{"windowsRunAsService", f.WindowsRunAsService},
	} {
		if field.set {
			errs = append(errs, fmt.Errorf("%s is not supported", field.name))
		}
	}
	return errors.Join(errs...)
}

// apply takes over what the file sets; omitted fields have upstream's default, whatever the flags.
func (c *Config) apply(f *proxyconfig.KubeProxyConfiguration) {
	defaults := NewConfig()
	c.Kubeconfig = f.ClientConnection.Kubeconfig
	c.QPS, c.Burst = cmp.Or(f.ClientConnection.QPS, defaults.QPS), cmp.Or(f.ClientConnection.Burst, defaults.Burst)
	c.HostnameOverride = cmp.Or(c.HostnameOverride, f.HostnameOverride)
	c.ContentType = cmp.Or(f.ClientConnection.ContentType, defaults.ContentType)
	c.AcceptContentTypes = f.ClientConnection.AcceptContentTypes
	c.FeatureGates, c.logging = f.FeatureGates, f.Logging
	c.Mode = cmp.Or(string(f.Mode), defaults.Mode)
	c.BindAddress = cmp.Or(f.BindAddress, defaults.BindAddress)
	if ip, err := netip.ParseAddr(c.BindAddress); err == nil && ip.Is6() {
		defaults.HealthzAddress, defaults.MetricsAddress = "[::]:"+healthzPort, "[::1]:"+metricsPort
	}
	c.HealthzAddress = cmp.Or(f.HealthzBindAddress, defaults.HealthzAddress)
	c.MetricsAddress = cmp.Or(f.MetricsBindAddress, defaults.MetricsAddress)
	c.BindAddressHardFail = f.BindAddressHardFail
	c.Profiling = f.EnableProfiling
	c.ClusterCIDR = f.ClusterCIDR
	c.DetectLocalMode = cmp.Or(string(f.DetectLocalMode), defaults.DetectLocalMode)
	c.PodBridge, c.PodPrefix = f.DetectLocal.BridgeInterface, f.DetectLocal.InterfaceNamePrefix
	c.NodePorts = f.NodePortAddresses
	c.MasqueradeBit = or(f.NFTables.MasqueradeBit, defaults.MasqueradeBit)
	c.MasqueradeAll = f.NFTables.MasqueradeAll
	c.MinSyncPeriod = cmp.Or(f.NFTables.MinSyncPeriod.Duration, defaults.MinSyncPeriod)
	c.SyncPeriod = cmp.Or(f.NFTables.SyncPeriod.Duration, defaults.SyncPeriod)
	c.ResyncPeriod = cmp.Or(f.ConfigSyncPeriod.Duration, defaults.ResyncPeriod)
	c.OOMScoreAdj = or(f.OOMScoreAdj, defaults.OOMScoreAdj)
	duration := func(set *metav1.Duration, otherwise time.Duration) time.Duration {
		return or(set, metav1.Duration{Duration: otherwise}).Duration
	}
	c.Conntrack = Conntrack{
		MaxPerCore:     or(f.Conntrack.MaxPerCore, defaults.Conntrack.MaxPerCore),
		Min:            or(f.Conntrack.Min, defaults.Conntrack.Min),
		TCPEstablished: duration(f.Conntrack.TCPEstablishedTimeout, defaults.Conntrack.TCPEstablished),
		TCPCloseWait:   duration(f.Conntrack.TCPCloseWaitTimeout, defaults.Conntrack.TCPCloseWait),
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

// withPort gives an address that lacks a port the default one; what is no address stays as it is.
func withPort(address, port string) string {
	if ip, err := netip.ParseAddr(strings.Trim(address, "[]")); err == nil {
		return net.JoinHostPort(ip.String(), port)
	}
	return address
}

// configuration is c as a KubeProxyConfiguration.
func (c *Config) configuration() *proxyconfig.KubeProxyConfiguration {
	f := &proxyconfig.KubeProxyConfiguration{
		TypeMeta: metav1.TypeMeta{
			Kind: "KubeProxyConfiguration", APIVersion: proxyconfig.SchemeGroupVersion.String(),
		},
		FeatureGates: c.FeatureGates, Logging: *c.logging.DeepCopy(),
		HostnameOverride: c.HostnameOverride, BindAddress: c.BindAddress, HealthzBindAddress: c.HealthzAddress,
		MetricsBindAddress: c.MetricsAddress, BindAddressHardFail: c.BindAddressHardFail, EnableProfiling: c.Profiling,
		Mode: proxyconfig.ProxyMode(c.Mode), DetectLocalMode: proxyconfig.LocalMode(c.DetectLocalMode),
		DetectLocal: proxyconfig.DetectLocalConfiguration{
			BridgeInterface: c.PodBridge, InterfaceNamePrefix: c.PodPrefix,
		},
		ClusterCIDR: c.ClusterCIDR, NodePortAddresses: c.NodePorts, OOMScoreAdj: &c.OOMScoreAdj,
		ConfigSyncPeriod: metav1.Duration{Duration: c.ResyncPeriod},
		NFTables: proxyconfig.KubeProxyNFTablesConfiguration{
			MasqueradeBit: &c.MasqueradeBit, MasqueradeAll: c.MasqueradeAll,
			SyncPeriod:    metav1.Duration{Duration: c.SyncPeriod},
			MinSyncPeriod: metav1.Duration{Duration: c.MinSyncPeriod},
		},
		Conntrack: proxyconfig.KubeProxyConntrackConfiguration{
			MaxPerCore: &c.Conntrack.MaxPerCore, Min: &c.Conntrack.Min, TCPBeLiberal: c.Conntrack.TCPBeLiberal,
			TCPEstablishedTimeout: &metav1.Duration{Duration: c.Conntrack.TCPEstablished},
			TCPCloseWaitTimeout:   &metav1.Duration{Duration: c.Conntrack.TCPCloseWait},
			UDPTimeout:            metav1.Duration{Duration: c.Conntrack.UDP},
			UDPStreamTimeout:      metav1.Duration{Duration: c.Conntrack.UDPStream},
		},
	}
	f.ClientConnection = componentconfig.ClientConnectionConfiguration{
		Kubeconfig: c.Kubeconfig, QPS: c.QPS, Burst: c.Burst,
		ContentType: c.ContentType, AcceptContentTypes: c.AcceptContentTypes,
	}
	logsapi.SetRecommendedLoggingConfiguration(&f.Logging)
	return f
}

// writeConfiguration writes what a file for ConfigFile would say.
func (c *Config) writeConfiguration(path string) error {
	data, err := yaml.Marshal(c.configuration())
	if err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("--write-config-to: %w", err)
	}
	return nil
}
