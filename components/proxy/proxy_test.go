package proxy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/components/proxy/conntrack"
)

// noFlows is a kernel that tracks nothing.
type noFlows struct{}

func (noFlows) Delete(v1.IPFamily, func(conntrack.Flow) bool) (int, error) { return 0, nil }

func node() *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "me"},
		Status:     v1.NodeStatus{Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}}},
	}
}

func service(name, ip string) *v1.Service {
	return &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: v1.ServiceSpec{
			Type: v1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip}, Ports: []v1.ServicePort{{Port: 80, Protocol: v1.ProtocolTCP}},
		},
	}
}

func slice(service, ip string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To[int32](8080), Protocol: ptr.To(v1.ProtocolTCP)}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{ip}}},
	}
}

// running is a Proxy over fakes.
type running struct {
	t      *testing.T
	client *fake.Clientset
	nft    *knftables.Fake
}

func start(t *testing.T) *running {
	t.Helper()
	before := goleak.IgnoreCurrent()
	r := &running{
		t: t, client: fake.NewClientset(node(), service("a", "10.96.0.7"), slice("a", "10.244.1.2")),
		nft: knftables.NewFake(knftables.IPv4Family, "kube-proxy"),
	}
	config := NewConfig()
	config.Client, config.Flows, config.HostnameOverride = r.client, noFlows{}, "me"
	config.HealthzAddress, config.MetricsAddress, config.MinSyncPeriod = "", "", 0
	config.Conntrack = Conntrack{}
	config.Open = func(family v1.IPFamily) (knftables.Interface, error) {
		if family == v1.IPv6Protocol {
			return nil, errors.New("this machine has no IPv6")
		}
		return r.nft, nil
	}
	p, err := New(*config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
		goleak.VerifyNone(t, before)
	})
	return r
}

// eventually waits until the table has a text, or has it no more.
func (r *running) eventually(text string, want bool) {
	r.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		r.nft.RLock()
		dump := r.nft.Dump()
		r.nft.RUnlock()
		if strings.Contains(dump, text) == want {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%q is still %v in\n%s", text, !want, dump)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestRunFollowsTheAPI(t *testing.T) {
	r := start(t)
	r.eventually("0 : 10.244.1.2 . 8080", true)
	if _, err := r.client.DiscoveryV1().EndpointSlices("ns").Update(t.Context(), slice("a", "10.244.1.9"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("0 : 10.244.1.9 . 8080", true)
	if _, err := r.client.CoreV1().Services("ns").Create(t.Context(), service("b", "10.96.0.8"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("10.96.0.8 . tcp . 80 : goto reject-chain", true)
	if err := r.client.CoreV1().Services("ns").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("10.96.0.7", false)
}

func TestFlushedRulesComeBack(t *testing.T) {
	r := start(t)
	r.eventually("0 : 10.244.1.2 . 8080", true)
	tx := r.nft.NewTransaction()
	tx.Delete(&knftables.Table{})
	if err := r.nft.Run(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	r.eventually("0 : 10.244.1.2 . 8080", true)
}

func TestRunReturnsWhereNftablesCannotBeOpened(t *testing.T) {
	before := goleak.IgnoreCurrent()
	config := NewConfig()
	config.Client, config.Flows, config.HostnameOverride = fake.NewClientset(node()), noFlows{}, "me"
	config.HealthzAddress, config.MetricsAddress, config.Conntrack = "", "", Conntrack{}
	noNFTables := errors.New("no nftables")
	config.Open = func(v1.IPFamily) (knftables.Interface, error) { return nil, noNFTables }
	p, err := New(*config)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); !errors.Is(err, noNFTables) {
		t.Errorf("Run returned %v", err)
	}
	goleak.VerifyNone(t, before)
}

const header = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"

func TestConfigFile(t *testing.T) {
	// What kubeadm writes, with the mode that this proxy has.
	kubeadm := header + `bindAddress: 0.0.0.0
bindAddressHardFail: false
clientConnection: {acceptContentTypes: "", burst: 0, contentType: "", kubeconfig: /var/lib/kube-proxy/kubeconfig.conf, qps: 0}
clusterCIDR: 10.244.0.0/16
configSyncPeriod: 0s
conntrack: {maxPerCore: null, min: null, tcpBeLiberal: false, tcpCloseWaitTimeout: null, tcpEstablishedTimeout: null, udpStreamTimeout: 0s, udpTimeout: 0s}
detectLocal: {bridgeInterface: "", interfaceNamePrefix: ""}
detectLocalMode: ""
enableProfiling: false
healthzBindAddress: ""
hostnameOverride: ""
iptables: {localhostNodePorts: null, masqueradeAll: false, masqueradeBit: null, minSyncPeriod: 0s, syncPeriod: 0s}
ipvs: {excludeCIDRs: null, minSyncPeriod: 0s, scheduler: "", strictARP: false, syncPeriod: 0s, tcpFinTimeout: 0s, tcpTimeout: 0s, udpTimeout: 0s}
logging: {flushFrequency: 0, options: {json: {infoBufferSize: "0"}, text: {infoBufferSize: "0"}}, verbosity: 0}
metricsBindAddress: ""
mode: nftables
nftables: {masqueradeAll: false, masqueradeBit: null, minSyncPeriod: 0s, syncPeriod: 0s}
nodePortAddresses: null
oomScoreAdj: null
portRange: ""
showHiddenMetricsForVersion: ""
winkernel: {enableDSR: false, forwardHealthCheckVip: false, networkName: "", rootHnsEndpointName: "", sourceVip: ""}
`
	for name, test := range map[string]struct{ file, fault string }{
		"kubeadm's":       {kubeadm, ""},
		"another mode":    {header + "mode: ipvs\n", `mode: "ipvs" is not supported`},
		"unknown field":   {header + "colour: red\n", "colour"},
		"another kind":    {"apiVersion: v1\nkind: Pod\n", "KubeProxyConfiguration"},
		"no address":      {header + "bindAddress: here\n", `bindAddress: "here"`},
		"a gate":          {header + "featureGates: {A: true}\n", "featureGates"},
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
			if test.fault == "" && err != nil || test.fault != "" && (err == nil || !strings.Contains(err.Error(), test.fault)) {
				t.Errorf("want %q, got %v", test.fault, err)
			}
		})
	}
}
