package cluster

import (
	"fmt"
	"net"
	"strings"

	"quintet.dev/quintet/cluster/internal/backend"
)

// proxyUser is kube-proxy, and may read nodes, Services and their endpoints by the bootstrap policy.
const proxyUser = "system:kube-proxy"

// apiBalancer stands before several API servers: clients survive the loss of any of them.
func (l *layout) apiBalancer(name string) (backend.Member, *files) {
	args := []string{
		"--listen=" + net.JoinHostPort(l.bind(), l.port(name, apiserverPort)),
		"--certificate-authority=" + l.files(name)("pki/ca.crt"),
	}
	for _, server := range l.config.names(APIServer) {
		args = append(args, "--backend="+net.JoinHostPort(l.site.Host(server), l.port(server, apiserverPort)))
	}
	return backend.Member{Program: "api-balancer", Port: apiserverPort, Args: args}, l.ids.balancerFiles()
}

// nodeServices adds what a node's processes beside the kubelet are configured with. node-init runs those that have a
// kubeconfig.
func (l *layout) nodeServices(f *files, name string) {
	file := l.files(name)
	if !l.config.without[Routes] {
		f.kubeconfig("node-routes.conf", l, l.apiURL(), proxyUser)
		f.arguments("node-routes", l.config.args[Routes])
	}
	if !l.config.without[KubeProxy] && l.config.images[KubeProxy] == "" {
		f.kubeconfig("kube-proxy.conf", l, l.apiURL(), proxyUser)
		f.add("kube-proxy.yaml", l.proxyConfiguration(file("kube-proxy.conf")), nil)
		f.arguments("kube-proxy", l.config.args[KubeProxy])
	}
}

// arguments adds further arguments of a node's service.
func (f *files) arguments(service string, args []string) {
	if len(args) > 0 {
		f.add("args/"+service, []byte(strings.Join(args, "\n")+"\n"), nil)
	}
}

// proxyConfiguration is kube-proxy's. The limits of connection tracking are the machine's, not a node's to set.
func (l *layout) proxyConfiguration(kubeconfig string) []byte {
	return fmt.Appendf(nil, `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
bindAddress: %q
clientConnection: {kubeconfig: %q}
clusterCIDR: %q
conntrack: {maxPerCore: 0, min: 0}
nftables: {minSyncPeriod: 0s, syncPeriod: 30s}
`, l.bind(), kubeconfig, podCIDR)
}

func (l *layout) kubeletConfiguration(name string) []byte {
	config := fmt.Appendf(nil, `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
port: %s
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %s}
authorization: {mode: Webhook}
clusterDomain: %s
`, l.port(name, kubeletPort), l.files(name)("pki/ca.crt"), clusterDomain)
	if l.config.hasDNS() {
		config = fmt.Appendf(config, "clusterDNS: [%q]\n", serviceIP(dnsServiceIP))
	}
	return config
}
