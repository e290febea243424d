package cluster

import (
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"quintet.dev/quintet/cluster/internal/backend"
)

// The usual ports and ranges, as kubeadm has them; pods' and services' addresses exist only inside the nodes.
const (
	etcdClientPort = 2379
	etcdPeerPort   = 2380
	apiserverPort  = 6443
	kubeletPort    = 10250
	managerPort    = 10257
	schedulerPort  = 10259

	adminConf = "admin.conf"
	etcdData  = "/var/lib/etcd"
	kubelets  = "/var/lib/kubelet"
)

// layout is a cluster on paper: which members there are, and with what arguments and files. It starts nothing.
type layout struct {
	config *config
	site   backend.Site
	ids    *identities
}

// names of the members of a component. Nodes count from 1, as people do.
func (c *config) names(component Component) []string {
	if c.without[component] {
		return nil
	}
	list := func(prefix string, first, n int) []string {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("%s-%d", prefix, first+i))
		}
		return names
	}
	switch component {
	case Etcd:
		if c.inProcess && c.store == Memory {
			return nil
		}
		return list("etcd", 0, c.etcds)
	case APIServer:
		return list(apiserverPrefix, 0, c.apiservers)
	case ControllerManager:
		return list("controller-manager", 0, 1)
	case Scheduler:
		return list("scheduler", 0, 1)
	case APIBalancer:
		if c.apiservers == 1 {
			return nil
		}
		return list("api-balancer", 0, 1)
	case Routes:
		if !c.hasPodNetwork() {
			return nil // there are no pods to lead to
		}
		return list(routesPrefix, 0, c.apiservers)
	case Node:
		return list("node", 1, c.nodes)
	case CloudProvider:
		if !c.hasPodNetwork() {
			return nil
		}
		return list("cloud-provider", 0, 1)
	default:
		return nil // KubeProxy and NetworkPolicy are processes of nodes, DNS is pods
	}
}

// hasPodNetwork tells whether pods are real.
func (c *config) hasPodNetwork() bool { return !c.inProcess && len(c.names(Node)) > 0 }

// placements tells the back end what will be there.
func (c *config) placements() []backend.Placement {
	ports := map[Component]int{APIServer: apiserverPort, APIBalancer: apiserverPort, Etcd: etcdClientPort}
	if c.inProcess {
		ports[Node] = kubeletPort // the API server must find many on one address
	}
	var placements []backend.Placement
	for _, component := range Components() {
		if component == Routes {
			continue // they are where their API servers are
		}
		for _, name := range c.names(component) {
			placements = append(placements, backend.Placement{Name: name, Port: ports[component]})
		}
	}
	return placements
}

// members lists everything that runs, in the order of Components.
func (l *layout) members() ([]backend.Member, error) {
	var members []backend.Member
	makers := []struct {
		component Component
		make      func(name string) (backend.Member, *files)
	}{
		{Etcd, l.etcd}, {APIServer, l.apiserver}, {APIBalancer, l.apiBalancer}, {ControllerManager, l.controllerManager},
		{Scheduler, l.scheduler}, {Routes, l.routes}, {Node, l.node}, {CloudProvider, l.cloudProvider},
	}
	for _, maker := range makers {
		for _, name := range l.config.names(maker.component) {
			member, files := maker.make(name)
			if files.err != nil {
				return nil, fmt.Errorf("%s: %w", name, files.err)
			}
			member.Name, member.Component, member.Files = name, string(maker.component), files.content
			member.Image = l.config.image(maker.component)
			member.Args = append(member.Args, l.config.args[maker.component]...)
			members = append(members, member)
		}
	}
	return members, nil
}

func (l *layout) etcd(name string) (backend.Member, *files) {
	if l.config.inProcess {
		return backend.Member{Program: "etcd", Port: etcdClientPort, Args: []string{
			"--data-dir=" + path.Join(l.site.Dir(name), "data"), "--listen-client-urls=" + l.url(name, etcdClientPort),
			"--unsafe-no-fsync=true",
		}}, newFiles()
	}
	file := l.files(name)
	var initial []string
	for _, peer := range l.config.names(Etcd) {
		initial = append(initial, peer+"="+l.url(peer, etcdPeerPort))
	}
	var alone []string
	if len(initial) == 1 {
		// A member without peers has nobody to wait for: it becomes leader half a second sooner.
		alone = []string{"--heartbeat-interval=10", "--election-timeout=100"}
	}
	return backend.Member{
		Program: "etcd",
		Port:    etcdClientPort,
		Data:    []string{etcdData},
		Args: append(alone,
			"--name="+name, "--data-dir="+etcdData,
			"--listen-client-urls=https://0.0.0.0:2379", "--advertise-client-urls="+l.url(name, etcdClientPort),
			"--listen-peer-urls=https://0.0.0.0:2380", "--initial-advertise-peer-urls="+l.url(name, etcdPeerPort),
			"--initial-cluster="+strings.Join(initial, ","), "--initial-cluster-state=new",
			"--cert-file="+file("pki/etcd/server.crt"), "--key-file="+file("pki/etcd/server.key"),
			"--trusted-ca-file="+file("pki/etcd/ca.crt"), "--client-cert-auth=true",
			"--peer-cert-file="+file("pki/etcd/peer.crt"), "--peer-key-file="+file("pki/etcd/peer.key"),
			"--peer-trusted-ca-file="+file("pki/etcd/ca.crt"), "--peer-client-cert-auth=true",
			"--log-level=warn",
			"--unsafe-no-fsync=true", // a killed process loses nothing; only a crash of the machine does
		),
	}, l.ids.etcdFiles(l.site, name)
}

func (l *layout) apiserver(name string) (backend.Member, *files) {
	file := l.files(name)
	args := []string{
		"--bind-address=" + l.bind(), "--secure-port=" + l.port(name, apiserverPort), "--advertise-address=" + l.nodeIPs(name)[0],
		"--tls-cert-file=" + file("pki/apiserver.crt"), "--tls-private-key-file=" + file("pki/apiserver.key"),
		"--client-ca-file=" + file("pki/ca.crt"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--service-cluster-ip-range=" + joined(l.config.serviceCIDRs()),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + file("pki/sa.pub"), "--service-account-signing-key-file=" + file("pki/sa.key"),
		"--kubelet-client-certificate=" + file("pki/apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + file("pki/apiserver-kubelet-client.key"),
		"--kubelet-certificate-authority=" + file("pki/ca.crt"),
		"--kubelet-preferred-address-types=InternalIP,Hostname",
		"--requestheader-client-ca-file=" + file("pki/front-proxy-ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
	}
	return backend.Member{
		Program: "kube-apiserver",
		Port:    apiserverPort,
		Args:    append(args, l.storage(file)...),
	}, l.ids.apiserverFiles(l, name)
}

// storage is the part of the API server's arguments that depends on where objects are kept.
func (l *layout) storage(file func(string) string) []string {
	members := l.config.names(Etcd)
	if len(members) == 0 {
		return []string{"--storage-backend=memory"}
	}
	var servers []string
	for _, member := range members {
		servers = append(servers, l.url(member, etcdClientPort))
	}
	if l.config.inProcess {
		return []string{"--etcd-servers=" + strings.Join(servers, ",")}
	}
	return []string{
		"--etcd-servers=" + strings.Join(servers, ","), "--etcd-cafile=" + file("pki/etcd/ca.crt"),
		"--etcd-certfile=" + file("pki/apiserver-etcd-client.crt"), "--etcd-keyfile=" + file("pki/apiserver-etcd-client.key"),
	}
}

func (l *layout) controllerManager(name string) (backend.Member, *files) {
	file := l.files(name)
	return backend.Member{
		Program: "kube-controller-manager",
		Args: []string{
			"--kubeconfig=" + file("controller-manager.conf"),
			"--authentication-kubeconfig=" + file("controller-manager.conf"), "--authorization-kubeconfig=" + file("controller-manager.conf"),
			"--authentication-tolerate-lookup-failure=true", // it may be there before the API server
			"--bind-address=" + l.bind(), "--secure-port=" + l.port(name, managerPort),
			"--leader-elect=false", // there is one; waiting for the lease of its killed self would take 15 s
			"--allocate-node-cidrs=true", "--cluster-cidr=" + joined(l.config.podCIDRs()),
			"--root-ca-file=" + file("pki/ca.crt"),
			"--cluster-signing-cert-file=" + file("pki/ca.crt"), "--cluster-signing-key-file=" + file("pki/ca.key"),
			"--use-service-account-credentials=true",
			"--kube-api-qps=1000", "--kube-api-burst=2000",
		},
	}, l.ids.controllerFiles(l)
}

func (l *layout) scheduler(name string) (backend.Member, *files) {
	file := l.files(name)
	return backend.Member{
		Program: "kube-scheduler",
		Args: []string{
			"--kubeconfig=" + file("scheduler.conf"), "--leader-elect=false", "--kube-api-qps=1000", "--kube-api-burst=2000",
			"--contention-profiling=false", // on by default, it takes a tenth of the scheduler's time; and in process, it is everybody's
			"--authentication-kubeconfig=" + file("scheduler.conf"), "--authorization-kubeconfig=" + file("scheduler.conf"),
			"--bind-address=" + l.bind(), "--secure-port=" + l.port(name, schedulerPort),
		},
	}, l.ids.schedulerFiles(l)
}

// The names of an API server and of what stands beside it end with the same number.
const (
	apiserverPrefix = "apiserver"
	routesPrefix    = "routes"
)

// besides is the API server that a member of Routes belongs to.
func besides(routes string) string {
	return apiserverPrefix + strings.TrimPrefix(routes, routesPrefix)
}

// routes leads an API server, whose container is on no node, to the pods.
func (l *layout) routes(name string) (backend.Member, *files) {
	server := besides(name)
	return backend.Member{
		Program: "node-routes",
		Beside:  server,
		Network: backend.NetworkAdmin,
		Args:    []string{"--kubeconfig=" + l.files(name)("node-routes.conf"), "--hostname-override=" + server, "--forward=false"},
	}, l.ids.routesFiles(l)
}

// node is a machine with Docker, or in this process a kubelet whose pods pretend.
func (l *layout) node(name string) (backend.Member, *files) {
	file := l.files(name)
	f := l.ids.nodeFiles(l, name)
	f.add("kubelet.yaml", l.kubeletConfiguration(name), nil)
	args := []string{
		"--kubeconfig=" + file("kubelet.conf"), "--config=" + file("kubelet.yaml"),
		"--hostname-override=" + name, "--node-ip=" + joined(l.nodeIPs(name)),
		"--tls-cert-file=" + file("pki/kubelet.crt"), "--tls-private-key-file=" + file("pki/kubelet.key"),
	}
	if l.config.inProcess {
		args = append(args, "--runtime=hollow", "--root-dir="+path.Join(l.site.Dir(name), "kubelet"), "--healthz-port=0")
	} else {
		args = append(args, "--runtime=docker", "--pod-infra-container-image=quintet/pause:dev", "--root-dir="+kubelets)
	}
	if l.config.without[ControllerManager] { // which would give the node its ranges of pod addresses
		args = append(args, "--pod-cidr="+joined(l.config.nodePodCIDRs(slices.Index(l.config.names(Node), name))))
	}
	member := backend.Member{Program: "kubelet", Args: args, Data: []string{kubelets}, Machine: true}
	if !l.config.inProcess {
		l.nodeServices(f, name)
	}
	if name == l.config.names(Node)[0] {
		member.Publish = l.config.publish
	}
	return member, f
}

// bind is the address that members listen on.
func (l *layout) bind() string {
	switch {
	case l.config.inProcess:
		return "127.0.0.1"
	case l.config.family == IPv4:
		return "0.0.0.0"
	default:
		return "::"
	}
}

// apiMember is what clients of the API are led to: the balancer, or the only API server.
func (l *layout) apiMember() string {
	if balancers := l.config.names(APIBalancer); len(balancers) > 0 {
		return balancers[0]
	}
	return l.config.names(APIServer)[0]
}

// apiURL is the address of the API inside the cluster.
func (l *layout) apiURL() string {
	member := l.apiMember()
	return "https://" + net.JoinHostPort(l.site.Host(member), l.port(member, apiserverPort))
}

// adminURL is the address of the API on this machine.
func (l *layout) adminURL() string { return "https://" + l.site.Endpoint(l.apiMember(), apiserverPort) }

func (l *layout) port(member string, usual int) string {
	return strconv.Itoa(l.site.Port(member, usual))
}

// files turns names of a member's files into the paths at which it finds them.
func (l *layout) files(member string) func(name string) string {
	dir := l.site.Dir(member)
	return func(name string) string { return path.Join(dir, name) }
}
