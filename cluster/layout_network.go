package cluster

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"quintet.dev/quintet/cluster/internal/backend"
)

// proxyUser is kube-proxy, and may read nodes, Services and their endpoints by the bootstrap policy. What the others
// may do stands with the add-ons.
const (
	proxyUser         = "system:kube-proxy"
	policyUser        = "system:network-policy"
	cloudProviderUser = "system:cloud-provider"
	provisionerUser   = "system:volume-provisioner"
)

// apiBalancer stands before several API servers: clients survive the loss of any of them.
func (l *layout) apiBalancer(name string) (backend.Member, *files) {
	args := []string{
		"--listen=" + net.JoinHostPort(l.bind(APIBalancer, name), l.port(name, apiserverPort)),
		"--certificate-authority=" + l.files(name)("pki/ca.crt"),
	}
	for _, server := range l.config.names(APIServer) {
		args = append(args, "--backend="+l.address(APIBalancer, server, apiserverPort))
	}
	return backend.Member{Program: "api-balancer", Port: apiserverPort, Args: args}, l.ids.balancerFiles()
}

// nodeService is a process of nodes other than the kubelet, and its user.
type nodeService struct {
	component Component
	user      string
}

// nodeServices are those that nodes in containers run.
func (c *config) nodeServices() []nodeService {
	services := []nodeService{{Routes, proxyUser}, {KubeProxy, proxyUser}, {NetworkPolicy, policyUser},
		{VolumeProvisioner, provisionerUser}}
	return slices.DeleteFunc(services, func(s nodeService) bool {
		return c.without[s.component] || s.component == KubeProxy && c.images[KubeProxy] != "" // it runs in pods
	})
}

// nodeServices adds the configuration of a node's processes other than the kubelet. node-init runs those that have a
// kubeconfig.
func (l *layout) nodeServices(f *files, name string) {
	for _, service := range l.config.nodeServices() {
		f.kubeconfig(string(service.component)+".conf", l, l.apiURL(Node), service.user)
	}
	l.nodeServiceFiles(f, name)
}

// nodeServiceFiles are the configuration of a node's processes without their kubeconfigs.
func (l *layout) nodeServiceFiles(f *files, name string) {
	l.engineFiles(f)
	for _, service := range l.config.nodeServices() {
		f.arguments(string(service.component), l.config.args[service.component])
		if service.component == KubeProxy {
			f.add("kube-proxy.yaml", l.proxyConfiguration(l.files(name)("kube-proxy.conf")), nil)
		}
	}
}

// cloudProvider is a machine of its own on the cluster's network: a router before the nodes.
func (l *layout) cloudProvider(name string) (backend.Member, *files) {
	args := []string{"--kubeconfig=" + l.files(name)("cloud-provider.conf"), "--approve-kubelet-serving=true"}
	for _, pool := range l.addressing.Pools() {
		if l.config.family == DualStack || pool.Addr().Is4() == (l.config.family != IPv6) {
			args = append(args, "--address-pool="+pool.String())
		}
	}
	return backend.Member{Program: "cloud-provider", Network: backend.NetworkRouter, Args: args},
		l.ids.cloudProviderFiles(l)
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
nftables: {minSyncPeriod: 10ms, syncPeriod: 30s}
`, l.bind(Node, ""), kubeconfig, joined(l.config.podCIDRs()))
}

// kubeletConfiguration has no thresholds of disk space where nodes share the machine's disk, on which pods that are
// evicted would make no room. Other thresholds can be given by the kubelet's flags.
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
	if l.config.nodeDisk == 0 {
		config = append(config, "evictionHard: {memory.available: 100Mi, nodefs.available: 0%, nodefs.inodesFree: 0%, "+
			"imagefs.available: 0%}\nimageGCHighThresholdPercent: 100\n"...)
	}
	if !l.config.hollow() {
		// Whether the machine swaps is not the nodes' to say; manifests are where kubeadm's nodes have them.
		config = append(config, "failSwapOn: false\nstaticPodPath: /etc/kubernetes/manifests\n"...)
	}
	if periods := l.config.shutdown; periods.total > 0 {
		config = fmt.Appendf(config, "shutdownGracePeriod: %v\nshutdownGracePeriodCriticalPods: %v\n",
			periods.total, periods.critical)
	}
	if l.config.hasDNS() {
		config = fmt.Appendf(config, "clusterDNS: [%s]\n", quoted(l.config.serviceIPs(dnsServiceIP)))
	}
	return config
}

// quoted is a list of strings in YAML's flow style, without its brackets.
func quoted(list []string) string { return `"` + strings.Join(list, `", "`) + `"` }
