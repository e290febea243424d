package proxy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes/fake"
	logsapi "k8s.io/component-base/logs/api/v1"
)

const header = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"

func TestConfigFile(t *testing.T) {
	// What kubeadm writes, with the mode that this proxy has.
	kubeadm := header + `bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection:
  {acceptContentTypes: "", burst: 0, contentType: "", kubeconfig: /var/lib/kube-proxy/kubeconfig.conf, qps: 0}
clusterCIDR: 10.244.0.0/16
configSyncPeriod: 0s
conntrack:
  {maxPerCore: null, min: null, tcpBeLiberal: false, tcpCloseWaitTimeout: null, tcpEstablishedTimeout: null,
   udpStreamTimeout: 0s, udpTimeout: 0s}
detectLocal: {bridgeInterface: "", interfaceNamePrefix: ""}
detectLocalMode: ""
enableProfiling: false
healthzBindAddress: ""
hostnameOverride: ""
iptables: {localhostNodePorts: null, masqueradeAll: false, masqueradeBit: null, minSyncPeriod: 0s, syncPeriod: 0s}
ipvs:
  {excludeCIDRs: null, minSyncPeriod: 0s, scheduler: "", strictARP: false, syncPeriod: 0s, tcpFinTimeout: 0s,
   tcpTimeout: 0s, udpTimeout: 0s}
logging: {flushFrequency: 0, options: {json: {infoBufferSize: "0"}, text: {infoBufferSize: "0"}}, verbosity: 0}
metricsBindAddress: ""
mode: nftables
nftables: {masqueradeAll: false, masqueradeBit: null, minSyncPeriod: 0s, syncPeriod: 0s}
nodePortAddresses: null
oomScoreAdj: null
portRange: ""
showHiddenMetricsForVersion: ""
winkernel:
  {enableDSR: false, forwardHealthCheckVip: false, networkName: "", rootHnsEndpointName: "", sourceVip: ""}
`
	for name, test := range map[string]struct{ file, fault string }{
		"kubeadm's":       {kubeadm, ""},
		"another mode":    {header + "mode: ipvs\n", `mode: "ipvs" is not supported`},
		"unknown field":   {header + "colour: red\n", "colour"},
		"another kind":    {"apiVersion: v1\nkind: Pod\n", "KubeProxyConfiguration"},
		"no address":      {header + "bindAddress: here\n", `bindAddress: "here"`},
		"a gate":          {header + "featureGates: {A: true}\n", "featureGates: A"},
		"a fixed gate":    {header + "featureGates: {NFTablesProxyMode: false}\n", "NFTablesProxyMode is always true"},
		"a known gate":    {header + "featureGates: {NFTablesProxyMode: true, ComponentFlagz: false}\n", ""},
		"logging":         {header + "logging: {verbosity: 2}\n", "logging"},
		"two ranges":      {header + "clusterCIDR: \"10.244.0.0/16,fd00::/56\"\n", ""},
		"a wrong range":   {header + "clusterCIDR: \"10.244.0.0/16,here\"\n", `clusterCIDR: "here"`},
		"two of a family": {header + "clusterCIDR: \"10.244.0.0/16,10.245.0.0/16\"\n", "more than one range"},
		"a port too high": {header + "healthzBindAddress: 0.0.0.0:99999\n", "healthzBindAddress: "},
		"an address only": {header + "metricsBindAddress: \"::1\"\n", ""},
		"negative burst":  {header + "clientConnection: {burst: -1}\n", "burst -1"},
		"negative QPS":    {header + "clientConnection: {qps: -1}\n", "qps -1"},
		"negative UDP":    {header + "conntrack: {udpTimeout: -1s}\n", "conntrack.udpTimeout: -1s"},
		"negative TCP":    {header + "conntrack: {tcpCloseWaitTimeout: -1s}\n", "conntrack.tcpCloseWaitTimeout"},
		"long prefix":     {header + "detectLocal: {interfaceNamePrefix: abcdefghijklmnop}\n", "interfaceNamePrefix"},
		"quoted bridge":   {header + "detectLocal: {bridgeInterface: 'a\"b'}\n", "bridgeInterface"},
		"hidden metrics":  {header + "showHiddenMetricsForVersion: \"1.35\"\n", "showHiddenMetricsForVersion"},
		"a mark too high": {header + "nftables: {masqueradeBit: 32}\n", "masqueradeBit: 32"},
		"no local mode":   {header + "detectLocalMode: Guess\n", "Guess"},
		"no bridge":       {header + "detectLocalMode: BridgeInterface\n", "bridgeInterface"},
		"no CIDR":         {header + "nodePortAddresses: [all]\n", `"all"`},
	} {
		t.Run(name, func(t *testing.T) {
			config := NewConfig()
			config.ConfigFile = filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(config.ConfigFile, []byte(test.file), 0o600); err != nil {
				t.Fatal(err)
			}
			config.Client = fake.NewClientset()
			_, err := New(*config)
			if test.fault == "" && err != nil || test.fault != "" &&
				(err == nil || !strings.Contains(err.Error(), test.fault)) {
				t.Errorf("want %q, got %v", test.fault, err)
			}
		})
	}
}

// write makes a configuration file.
func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(header+content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfigFileDefaults(t *testing.T) {
	config := NewConfig()
	config.ConfigFile = write(t, `bindAddress: "::"
bindAddressHardFail: true
clientConnection: {contentType: application/json, acceptContentTypes: "application/json,*/*"}
nftables: {minSyncPeriod: 0s}
`)
	if err := config.ReadFile(); err != nil {
		t.Fatal(err)
	}
	if config.MinSyncPeriod != time.Second || config.SyncPeriod != 30*time.Second {
		t.Errorf("periods %v and %v", config.MinSyncPeriod, config.SyncPeriod)
	}
	if config.HealthzAddress != "[::]:10256" || config.MetricsAddress != "[::1]:10249" || !config.BindAddressHardFail {
		t.Errorf("addresses %s and %s", config.HealthzAddress, config.MetricsAddress)
	}
	if config.ContentType != "application/json" || config.AcceptContentTypes != "application/json,*/*" {
		t.Errorf("content types %q and %q", config.ContentType, config.AcceptContentTypes)
	}
	if got := withPort("::1", "1"); got != "[::1]:1" {
		t.Errorf("an address without port became %s", got)
	}
}

// The same errors are reported with the same messages, in the same order.
func TestFaultsAreOrdered(t *testing.T) {
	config := NewConfig()
	config.HealthzAddress, config.MetricsAddress, config.ResyncPeriod, config.QPS = "a", "b", 0, -1
	want := "clientConnection: qps -1 and burst 10 may not be negative\n" +
		"healthzBindAddress: \"a\" is not of the form IP:port\nmetricsBindAddress: \"b\" is not of the form IP:port\n" +
		"configSyncPeriod: 0s is not greater than 0"
	for range 20 {
		if err := config.check(); err == nil || err.Error() != want {
			t.Fatalf("got %v", err)
		}
	}
}

// The file sets flags of logging that are not given.
func TestLogging(t *testing.T) {
	file := write(t, "logging: {format: json, verbosity: 3, flushFrequency: 7s, "+
		"vmodule: [{filePattern: a, verbosity: 9}]}\n")
	for name, test := range map[string]struct{ args, v, format string }{
		"of the file":       {"--config=" + file, "3", "json"},
		"of a flag before":  {"--v=4 --config=" + file, "4", "json"},
		"of a flag after":   {"--config=" + file + " --v=4", "4", "json"},
		"of another format": {"--logging-format=text --config=" + file, "3", "text"},
	} {
		t.Run(name, func(t *testing.T) {
			fs := pflag.NewFlagSet("", pflag.ContinueOnError)
			logsapi.AddFlags(logsapi.NewLoggingConfiguration(), fs)
			config := NewConfig()
			config.AddFlags(fs)
			if err := fs.Parse(strings.Fields(test.args)); err != nil {
				t.Fatal(err)
			}
			value := func(name string) string { return fs.Lookup(name).Value.String() }
			if value("v") != test.v || value("logging-format") != test.format || value("log-flush-frequency") != "7s" ||
				value("vmodule") != "a=9" {
				t.Errorf("v %s, format %s, flush %s, vmodule %s",
					value("v"), value("logging-format"), value("log-flush-frequency"), value("vmodule"))
			}
			config.Client = fake.NewClientset()
			if _, err := New(*config); err != nil {
				t.Error(err)
			}
		})
	}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	NewConfig().AddFlags(fs)
	split := write(t, "logging: {options: {json: {splitStream: true}}}\n")
	err := fs.Parse([]string{"--config=" + split})
	if err == nil || !strings.Contains(err.Error(), "logging.options.json") {
		t.Errorf("got %v", err)
	}
}

// A written configuration can be read back unchanged.
func TestWriteConfig(t *testing.T) {
	config := NewConfig()
	config.WriteConfigTo = filepath.Join(t.TempDir(), "written.yaml")
	config.HostnameOverride, config.ClusterCIDR, config.MasqueradeAll = "me", "10.244.0.0/16", true
	p, err := New(*config)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(config.WriteConfigTo)
	if err != nil {
		t.Fatal(err)
	}
	read := NewConfig()
	read.ConfigFile = config.WriteConfigTo
	if err := read.ReadFile(); err != nil {
		t.Fatal(err)
	}
	if read.ClusterCIDR != "10.244.0.0/16" || !read.MasqueradeAll || read.HostnameOverride != "me" {
		t.Errorf("read %+v", read)
	}
	again := filepath.Join(t.TempDir(), "again.yaml")
	if err := read.writeConfiguration(again); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(again); err != nil || string(got) != string(written) {
		t.Errorf("error %v, got\n%s\nwant\n%s", err, got, written)
	}
}
