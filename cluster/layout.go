package cluster

import (
	"fmt"
	"maps"
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
	metricsPort    = 10250
	managerPort    = 10257
	schedulerPort  = 10259

	adminConf = "admin.conf"
	etcdData  = "/var/lib/etcd"
	kubelets  = "/var/lib/kubelet"
)

// layout is a cluster on paper: which members there are, and with what arguments and files. It starts nothing.
type layout struct {
	config     *config
	addressing backend.Addressing
	ids        *identities
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
		if c.inProcess && c.inMemory() {
			return nil
		}
		return list("etcd", 0, c.etcds)
	case APIServer:
		return list(apiserverPrefix, 0, c.apiservers)
	case ControllerManager:
		return list("controller-manager", 0, c.managers)
	case Scheduler:
		return list("scheduler", 0, c.schedulers)
	case APIBalancer:
		if c.apiservers == 1 {
			return nil
		}
		return list("api-balancer", 0, 1)
	case Routes:
		if !c.hasPodNetwork() || c.programs[APIServer] != nil {
			return nil // there are no pods to lead to, or no network of an API server's own to lead from
		}
		return list(routesPrefix, 0, c.apiservers)
	case Node:
		return list("node", 1, c.nodes)
	case CloudProvider:
		if !c.hasPodNetwork() {
			return nil
		}
		return list("cloud-provider", 0, 1)
	case VolumeProvisioner:
		if !c.hollow() || !c.hasVolumeProvisioner() {
			return nil // it is a process of the nodes
		}
		return list("volume-provisioner", 0, 1)
	case Registry:
		if !c.registry || !c.hasPodNetwork() {
			return nil
		}
		return []string{registryMember}
	case MetricsServer:
		if !c.metrics || len(c.names(Node)) == 0 {
			return nil
		}
		return list("metrics-server", 0, 1)
	default:
		return nil // KubeProxy and NetworkPolicy are processes of nodes, the drivers and DNS are pods
	}
}

// hasPodNetwork tells whether pods are real.
func (c *config) hasPodNetwork() bool { return !c.hollow() && len(c.names(Node)) > 0 }

// inMemory tells whether an API server in this process keeps its objects in memory. A program in the place of etcd asks
// for etcd.
func (c *config) inMemory() bool { return c.store == Memory && (c.storeSet || c.programs[Etcd] == nil) }

// placements tells the back end what will be there.
func (c *config) placements() []backend.Placement {
	ports := map[Component]int{APIServer: apiserverPort, APIBalancer: apiserverPort, Etcd: etcdClientPort,
		Scheduler: schedulerPort, Registry: registryPort}
	for component, port := range map[Component]int{Node: kubeletPort, MetricsServer: metricsPort} {
		if c.inThisProcess(component) {
			ports[component] = port // the API server must find many on one address
		}
	}
	var placements []backend.Placement
	for _, component := range Components() {
		if component == Routes {
			continue // they are where their API servers are
		}
		for _, name := range c.names(component) {
			placement := backend.Placement{Name: name, Port: ports[component], InProcess: c.beside(component)}
			if component == Node && !c.hollow() {
				placement.Resources, placement.DataSize = c.nodeResources, c.nodeDisk
			}
			placements = append(placements, placement)
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
		{Etcd, l.etcd}, {APIServer, l.apiserver}, {APIBalancer, l.apiBalancer},
		{ControllerManager, l.controllerManager},
		{Scheduler, l.scheduler}, {Routes, l.routes}, {Node, l.node}, {CloudProvider, l.cloudProvider},
		{VolumeProvisioner, l.volumeProvisioner}, {MetricsServer, l.metricsServer},
		{Registry, l.registry},
	}
	for _, maker := range makers {
		for _, name := range l.config.names(maker.component) {
			member, err := l.member(maker.component, maker.make, name)
			if err != nil {
				return nil, err
			}
			members = append(members, l.withDisk(member)...)
		}
	}
	return members, nil
}

// member is what make makes, with what is the same for all components.
func (l *layout) member(component Component, make func(string) (backend.Member, *files),
	name string) (backend.Member, error) {
	member, files := make(name)
	files.userFiles(component, l.config.files[component])
	if files.err != nil {
		return member, fmt.Errorf("%s: %w", name, files.err)
	}
	member.Name, member.Component, member.Files = name, string(component), files.content
	member.Image, member.InProcess = l.config.image(component), l.config.beside(component)
	member.Args = append(member.Args, l.userArgs(component, name, l.config.args[component])...)
	if component == Node {
		member.Args = append(member.Args, l.userArgs(Node, name, l.config.ofNode(name).args())...)
	}
	return member, nil
}

func (l *layout) apiserver(name string) (backend.Member, *files) {
	file := l.files(name)
	args := []string{
		"--bind-address=" + l.bind(APIServer, name), "--secure-port=" + l.port(name, apiserverPort),
		"--advertise-address=" + l.nodeIPs(name)[0],
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
		"--enable-bootstrap-token-auth=true",
		"--requestheader-client-ca-file=" + file("pki/front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + file("pki/front-proxy-client.crt"),
		"--proxy-client-key-file=" + file("pki/front-proxy-client.key"),
	}
	if l.config.faults != nil {
		args = append(args, "--fault-injection")
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
		servers = append(servers, l.etcdScheme()+l.address(APIServer, member, etcdClientPort))
	}
	if l.config.inProcess {
		return []string{"--etcd-servers=" + strings.Join(servers, ",")}
	}
	return []string{
		"--etcd-servers=" + strings.Join(servers, ","), "--etcd-cafile=" + file("pki/etcd/ca.crt"),
		"--etcd-certfile=" + file("pki/apiserver-etcd-client.crt"),
		"--etcd-keyfile=" + file("pki/apiserver-etcd-client.key"),
	}
}

func (l *layout) controllerManager(name string) (backend.Member, *files) {
	file := l.files(name)
	return backend.Member{
		Program: "kube-controller-manager",
		Args: slices.Concat([]string{
			"--kubeconfig=" + file("controller-manager.conf"),
			"--authentication-kubeconfig=" + file("controller-manager.conf"),
			"--authorization-kubeconfig=" + file("controller-manager.conf"),
			"--authentication-tolerate-lookup-failure=true", // it may be there before the API server
			"--bind-address=" + l.bind(ControllerManager, name), "--secure-port=" + l.port(name, managerPort),
			l.leaderElect(ControllerManager),
		}, l.config.nodeCIDRArgs(), []string{
			"--root-ca-file=" + file("pki/ca.crt"), "--service-account-private-key-file=" + file("pki/sa.key"),
			"--cluster-signing-cert-file=" + file("pki/ca.crt"), "--cluster-signing-key-file=" + file("pki/ca.key"),
			"--use-service-account-credentials=true",
			"--kube-api-qps=5000", "--kube-api-burst=10000",
		}, l.config.controllersArg()),
	}, l.ids.controllerFiles(l)
}

func (l *layout) scheduler(name string) (backend.Member, *files) {
	return backend.Member{
		Program: "kube-scheduler",
		Port:    schedulerPort,
		Args:    l.schedulerArgs(name),
	}, l.ids.schedulerFiles(l)
}

func (l *layout) schedulerArgs(name string) []string {
	kubeconfig := l.files(name)("scheduler.conf")
	return []string{
		"--kubeconfig=" + kubeconfig, l.leaderElect(Scheduler), "--kube-api-qps=5000", "--kube-api-burst=10000",
		// on by default, it takes a tenth of the scheduler's time; and in process, it is shared by all
		"--contention-profiling=false",
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=" + l.bind(Scheduler, name), "--secure-port=" + l.port(name, schedulerPort),
	}
}

// leaderElect: one of several works at a time. One alone need not wait 15 s for the lease of its killed self.
func (l *layout) leaderElect(component Component) string {
	return "--leader-elect=" + strconv.FormatBool(len(l.config.names(component)) > 1)
}

// The names of an API server and of the members that share its network end with the same number.
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
		Program:           "node-routes",
		SharesNetworkWith: server,
		Network:           backend.NetworkAdmin,
		Args: []string{"--kubeconfig=" + l.files(name)("node-routes.conf"),
			"--hostname-override=" + server, "--forward=false"},
	}, l.ids.routesFiles(l)
}

// node is a machine with a container engine, or in this process a kubelet whose pods pretend.
func (l *layout) node(name string) (backend.Member, *files) {
	file := l.files(name)
	f := l.ids.nodeFiles(l, name)
	f.add("kubelet.yaml", l.kubeletConfiguration(name), nil)
	args := []string{
		"--kubeconfig=" + file("kubelet.conf"), "--config=" + file("kubelet.yaml"),
		"--hostname-override=" + name, "--node-ip=" + joined(l.nodeIPs(name)),
		"--tls-cert-file=" + file("pki/kubelet.crt"), "--tls-private-key-file=" + file("pki/kubelet.key"),
	}
	if l.config.hollow() {
		args = append(args, "--runtime=hollow", "--root-dir="+path.Join(l.addressing.Dir(name), "kubelet"),
			"--healthz-port=0")
	} else {
		args = append(append(args, l.config.engineArgs()...), "--pod-infra-container-image=quintet/pause:dev",
			"--root-dir="+kubelets)
	}
	if l.config.without[ControllerManager] { // which would give the node its ranges of pod addresses
		args = append(args, "--pod-cidr="+joined(l.config.nodePodCIDRs(nodeNumber(name)-1)))
	}
	args = append(args, l.capacityArgs()...)
	member := backend.Member{Program: "kubelet", Args: args, Data: []string{kubelets}, Machine: !l.config.beside(Node),
		Resources: l.config.nodeResources, StopGrace: l.config.shutdown.stopGrace()}
	if !l.config.hollow() {
		l.nodeServices(f, name)
	}
	member.Publish = l.publishes(name)
	for _, m := range l.config.ofNode(name).Mounts {
		member.Mounts = append(member.Mounts, backend.Mount(m))
	}
	return member, f
}

// capacityArgs have a kubelet declare what its node is bounded by.
func (l *layout) capacityArgs() []string {
	r := l.config.nodeResources
	if !l.config.hollow() {
		if r == (backend.Resources{}) {
			return nil
		}
		return []string{"--capacity-from-cgroup=true"}
	}
	var args []string
	if r.CPUs > 0 {
		args = append(args, "--hollow-cpus="+strconv.Itoa(r.CPUs))
	}
	if r.MemoryBytes > 0 {
		args = append(args, "--hollow-memory="+strconv.FormatInt(r.MemoryBytes, 10))
	}
	return args
}

// publishes are the ports of a node on the host: those of WithPublishedPort lead through the first node.
func (l *layout) publishes(name string) []backend.PublishedPort {
	var ports []backend.PublishedPort
	if nodeNumber(name) == 1 {
		for _, host := range slices.Sorted(maps.Keys(l.config.publish)) {
			ports = append(ports, PortMapping{HostPort: host, ContainerPort: l.config.publish[host]}.published())
		}
	}
	for _, p := range l.config.ofNode(name).Ports {
		ports = append(ports, p.published())
	}
	return ports
}

// bind is the address that a member listens on.
func (l *layout) bind(component Component, name string) string {
	switch {
	case l.config.inProcess:
		return "127.0.0.1"
	case l.config.inThisProcess(component):
		return l.addressing.IPs(name)[0]
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

// address is host:port at which a component reaches a member: from this process, containers are reached at the ports
// that they publish.
func (l *layout) address(from Component, member string, usual int) string {
	if l.config.beside(from) {
		return l.addressing.Endpoint(member, usual)
	}
	return net.JoinHostPort(l.addressing.Host(member), l.port(member, usual))
}

// apiURL is the address of the API for a component.
func (l *layout) apiURL(from Component) string {
	return "https://" + l.address(from, l.apiMember(), apiserverPort)
}

// adminURL is the address of the API for clients outside.
func (l *layout) adminURL() string {
	return "https://" + l.addressing.Endpoint(l.apiMember(), apiserverPort)
}

func (l *layout) port(member string, usual int) string {
	return strconv.Itoa(l.addressing.Port(member, usual))
}

// files turns names of a member's files into the paths at which it finds them.
func (l *layout) files(member string) func(name string) string {
	dir := l.addressing.Dir(member)
	return func(name string) string { return path.Join(dir, name) }
}
