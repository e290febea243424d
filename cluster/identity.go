package cluster

import (
	"fmt"
	"slices"
	"time"

	"quintet.dev/quintet/cluster/internal/backend"
	"quintet.dev/quintet/internal/certs"
	"quintet.dev/quintet/internal/kubeconfig"
)

// identities are the authorities of a cluster; every certificate and kubeconfig is signed by one of them. The split
// is kubeadm's (https://kubernetes.io/docs/setup/best-practices/certificates/).
type identities struct {
	cluster, etcd, frontProxy *certs.Authority
	serviceAccounts           certs.Pair
}

// newIdentities makes authorities whose certificates are valid from and to; zero times are the usual ones.
func newIdentities(from, to time.Time) (*identities, error) {
	var ids identities
	for name, authority := range map[string]**certs.Authority{
		"kubernetes": &ids.cluster, "etcd-ca": &ids.etcd, "front-proxy-ca": &ids.frontProxy,
	} {
		made, err := certs.NewAuthorityFor(name, from, to)
		if err != nil {
			return nil, err
		}
		*authority = made
	}
	var err error
	ids.serviceAccounts, err = certs.SigningKey()
	return &ids, err
}

// kubeletClientUser is the API server at kubelets.
const kubeletClientUser = "kube-apiserver-kubelet-client"

// files collects a member's files; the first error sticks.
type files struct {
	content map[string][]byte
	err     error
}

func newFiles() *files { return &files{content: map[string][]byte{}} }

// pair adds name.crt and name.key.
func (f *files) pair(name string, pair certs.Pair, err error) {
	f.add(name+".crt", pair.Cert, err)
	f.add(name+".key", pair.Key, err)
}

func (f *files) add(name string, content []byte, err error) {
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("%s: %w", name, err)
	}
	f.content[name] = content
}

// kubeconfig adds a kubeconfig file for a client certificate of user.
func (f *files) kubeconfig(name string, l *layout, server, user string, groups ...string) {
	content, err := l.ids.kubeconfig(l.config.name, server, user, groups...)
	f.add(name, content, err)
}

func (ids *identities) kubeconfig(cluster, server, user string, groups ...string) ([]byte, error) {
	pair, err := ids.cluster.Client(user, groups...)
	if err != nil {
		return nil, err
	}
	// Users of several clusters may be merged into one file, so that their entries need names of their own.
	entry := cluster + "-" + user
	return kubeconfig.Encode(cluster, server, ids.cluster.Cert,
		kubeconfig.Identity{User: entry, Cert: pair.Cert, Key: pair.Key})
}

func (ids *identities) etcdFiles(addressing backend.Addressing, member string) *files {
	f := newFiles()
	hosts := append([]string{"localhost", "127.0.0.1", addressing.PublicHost(), member, addressing.Host(member)},
		addressing.IPs(member)...)
	f.add("pki/etcd/ca.crt", ids.etcd.Cert, nil)
	pair, err := ids.etcd.Peer(member, hosts...)
	f.pair("pki/etcd/server", pair, err)
	pair, err = ids.etcd.Peer(member, hosts...)
	f.pair("pki/etcd/peer", pair, err)
	return f
}

func (ids *identities) apiserverFiles(l *layout, member string) *files {
	f := newFiles()
	f.add("pki/ca.crt", ids.cluster.Cert, nil)
	f.add("pki/etcd/ca.crt", ids.etcd.Cert, nil)
	f.add("pki/front-proxy-ca.crt", ids.frontProxy.Cert, nil)
	f.add("pki/sa.pub", ids.serviceAccounts.Cert, nil)
	f.add("pki/sa.key", ids.serviceAccounts.Key, nil)
	hosts := []string{
		"localhost", "127.0.0.1", l.addressing.PublicHost(), member, l.addressing.Host(member), l.apiMember(),
		l.addressing.Host(l.apiMember()),
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + clusterDomain,
	}
	hosts = slices.Concat(hosts, l.addressing.IPs(member), l.addressing.IPs(l.apiMember()), l.config.serviceIPs(1))
	pair, err := ids.cluster.Serving("kube-apiserver", hosts...)
	f.pair("pki/apiserver", pair, err)
	pair, err = ids.cluster.Client(kubeletClientUser)
	f.pair("pki/apiserver-kubelet-client", pair, err)
	pair, err = ids.frontProxy.Client("front-proxy-client")
	f.pair("pki/front-proxy-client", pair, err)
	pair, err = ids.etcd.Client("kube-apiserver-etcd-client")
	f.pair("pki/apiserver-etcd-client", pair, err)
	f.kubeconfig(adminConf, l, l.adminURL(), "kubernetes-admin", "system:masters")
	if !l.config.inThisProcess(APIServer) {
		f.add(caKey, ids.cluster.Key, nil)
		record, err := l.config.record()
		f.add(recordFile, record, err)
	}
	return f
}

func (ids *identities) controllerFiles(l *layout) *files {
	f := newFiles()
	f.pair("pki/ca", ids.cluster.Pair, nil) // with its key: the controller manager signs
	f.add("pki/sa.key", ids.serviceAccounts.Key, nil)
	f.kubeconfig("controller-manager.conf", l, l.apiURL(ControllerManager), "system:kube-controller-manager")
	return f
}

func (ids *identities) schedulerFiles(l *layout) *files {
	f := newFiles()
	f.kubeconfig("scheduler.conf", l, l.apiURL(Scheduler), "system:kube-scheduler")
	return f
}

func (ids *identities) nodeFiles(l *layout, member string) *files {
	f := newFiles()
	f.add("pki/ca.crt", ids.cluster.Cert, nil)
	hosts := append([]string{member, l.addressing.Host(member)}, l.addressing.IPs(member)...)
	pair, err := ids.cluster.Serving("system:node:"+member, hosts...)
	f.pair("pki/kubelet", pair, err)
	f.kubeconfig("kubelet.conf", l, l.apiURL(Node), "system:node:"+member, "system:nodes")
	return f
}

func (ids *identities) balancerFiles() *files {
	f := newFiles()
	f.add("pki/ca.crt", ids.cluster.Cert, nil)
	return f
}

func (ids *identities) cloudProviderFiles(l *layout) *files {
	f := newFiles()
	f.kubeconfig("cloud-provider.conf", l, l.apiURL(CloudProvider), cloudProviderUser)
	return f
}

func (ids *identities) routesFiles(l *layout) *files {
	f := newFiles()
	f.kubeconfig("node-routes.conf", l, l.apiURL(Routes), proxyUser)
	return f
}

// url returns the URL at which etcd members listen, and find each other.
func (l *layout) url(member string, usual int) string {
	return l.etcdScheme() + l.address(Etcd, member, usual)
}

// etcdScheme is that of etcd's URLs; inside one process it needs no TLS.
func (l *layout) etcdScheme() string {
	if l.config.inProcess {
		return "http://"
	}
	return "https://"
}
