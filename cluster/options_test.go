package cluster

import (
	"strings"
	"testing"
	"time"
)

// TestOptionsThatNothingWouldComeOf: each rung refuses what it can't mean, and names it.
func TestOptionsThatNothingWouldComeOf(t *testing.T) {
	inProcess, containers := InProcess(), func(*config) error { return nil }
	for _, test := range []struct {
		want string
		opts []Option
	}{
		{"image of kube-scheduler", []Option{inProcess, WithImage(Scheduler, "mine:dev")}},
		{"image of coredns", []Option{inProcess, WithImage(DNS, "mine:dev")}},
		{"detached", []Option{inProcess, Detached()}},
		{"3 etcd members", []Option{inProcess, WithEtcdMembers(3)}},
		{"3 etcd members", []Option{inProcess, WithStore(EmbeddedEtcd), WithEtcdMembers(3)}},
		{"published ports", []Option{inProcess, WithPublishedPort(8080, 30080)}},
		{"IP family dual", []Option{inProcess, WithIPFamily(DualStack)}},
		{"arguments of etcd: the store is memory", []Option{inProcess, WithArgs(Etcd, "--x")}},
		{"store etcd3: etcd is left out", []Option{inProcess, WithStore(EmbeddedEtcd), Without(Etcd)}},
		{"arguments of kube-proxy", []Option{inProcess, WithArgs(KubeProxy, "--x")}},
		{"arguments of network-policy", []Option{inProcess, WithArgs(NetworkPolicy, "--x")}},
		{"arguments of coredns", []Option{inProcess, WithArgs(DNS, "--x")}},
		{"arguments of cloud-provider", []Option{inProcess, WithArgs(CloudProvider, "--x")}},
		{"arguments of node-routes", []Option{inProcess, WithArgs(Routes, "--x")}},
		{"arguments of node: the cluster has no node", []Option{inProcess, WithNodes(0), WithArgs(Node, "--x")}},
		{"arguments of api-balancer", []Option{inProcess, WithArgs(APIBalancer, "--x")}},
		{"arguments of kube-scheduler: it is left out",
			[]Option{inProcess, Without(Scheduler), WithArgs(Scheduler, "--x")}},

		{"node resources: the cluster has no node", []Option{inProcess, WithNodes(0), WithNodeResources(1, 0)}},
		{"node resources: it is left out", []Option{containers, Without(Node), WithNodeResources(0, 1)}},
		{"node disk: hollow nodes write to no disk", []Option{inProcess, WithNodeDisk(1 << 30)}},
		{"node disk: the cluster has no node", []Option{containers, WithNodes(0), WithNodeDisk(1 << 30)}},
		{"node disk of 1 bytes: a node needs at least 1073741824", []Option{containers, WithNodeDisk(1)}},
		{"node resources: -1 CPUs", []Option{containers, WithNodeResources(-1, 0)}},
		{"overcommit", []Option{inProcess, WithNodeResources(1, 0), WithOvercommit()}},
		{"overcommit", []Option{containers, WithOvercommit()}},
		{"graceful node shutdown", []Option{inProcess, WithGracefulNodeShutdown(time.Second, 0)}},
		{"graceful node shutdown in 1s", []Option{containers, WithGracefulNodeShutdown(time.Second, time.Minute)}},
		{"graceful node shutdown in 1ms", []Option{containers, WithGracefulNodeShutdown(time.Millisecond, 0)}},
		{"it is left out", []Option{inProcess, Without(Scheduler), WithScheduler()}},
		{"a detached cluster outlives it", []Option{containers, Detached(), WithScheduler()}},
		{"it has no image", []Option{containers, WithImage(Scheduler, "mine:dev"), WithScheduler()}},

		{"store memory", []Option{containers, WithStore(Memory)}},
		{"published port 80:80: node ports are 30000-32767", []Option{containers, WithPublishedPort(80, 80)}},
		{"published port 80:30080: node ports are 80-90", []Option{containers, WithPublishedPort(80, 30080),
			WithArgs(APIServer, "--service-node-port-range=80-90")}},
		{"published ports", []Option{containers, WithNodes(0), WithPublishedPort(8080, 30080)}},
		{"published ports", []Option{containers, Without(Node), WithPublishedPort(8080, 30080)}},
		{"3 nodes: it is left out", []Option{containers, WithNodes(3), Without(Node)}},
		{"3 etcd members: it is left out", []Option{containers, WithEtcdMembers(3), Without(Etcd)}},
		{"2 API servers without etcd", []Option{containers, WithAPIServers(2), Without(Etcd)}},
		{"--without network-policy), load", []Option{containers, WithImage(NetworkPolicy, "mine:dev")}},
		{"image of kube-scheduler: it is left out",
			[]Option{containers, WithImage(Scheduler, "mine:dev"), Without(Scheduler)}},
		{"image of coredns: it is left out", []Option{containers, WithImage(DNS, "mine:dev"), WithoutDNS()}},
		{"image of api-balancer: a single API server has none",
			[]Option{containers, WithImage(APIBalancer, "mine:dev")}},
		{"image of node: the cluster has no node", []Option{containers, WithNodes(0), WithImage(Node, "mine:dev")}},
		{"image of kube-proxy: the cluster has no node",
			[]Option{containers, WithNodes(0), WithImage(KubeProxy, "mine:dev")}},
		{"arguments of cloud-provider: the cluster has no node",
			[]Option{containers, WithNodes(0), WithArgs(CloudProvider, "--x")}},
		{"image of volume-provisioner", []Option{containers, WithImage(VolumeProvisioner, "mine:dev")}},
		{"arguments of volume-provisioner: the cluster has no node",
			[]Option{inProcess, WithNodes(0), WithArgs(VolumeProvisioner, "--x")}},
		{"arguments of volume-provisioner: it is left out",
			[]Option{containers, WithoutDefaultStorageClass(), WithArgs(VolumeProvisioner, "--x")}},
		{"arguments of metrics-server: it is added by WithMetricsServer",
			[]Option{inProcess, WithArgs(MetricsServer, "--x")}},
		{"image of metrics-server: it is added by WithMetricsServer",
			[]Option{containers, WithImage(MetricsServer, "mine:dev")}},
		{"arguments of csi-driver: it is added by WithCSIDriver",
			[]Option{containers, WithArgs(CSIDriver, "--attach-limit=1")}},
		{"csi-driver: a cluster in process has none", []Option{inProcess, WithCSIDriver()}},
		{"csi-driver: it is left out", []Option{containers, WithCSIDriver(), Without(CSIDriver)}},
		{"metrics-server: the cluster has no node", []Option{inProcess, WithNodes(0), WithMetricsServer()}},
		{"metrics-server: it is left out", []Option{containers, WithMetricsServer(), Without(MetricsServer)}},
		{"image of kube-scheduler: empty", []Option{containers, WithImage(Scheduler, "")}},
		{"progress", []Option{containers, WithProgress(nil)}},
	} {
		if _, err := Start(t.Context(), test.opts...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v; want an error that tells %q", err, test.want)
		}
	}
}

// TestOptionsOfEachRung: what a rung can mean is not refused.
func TestOptionsOfEachRung(t *testing.T) {
	for name, opts := range map[string][]Option{
		"in process": {InProcess(), WithNodes(100), WithAPIServers(2), WithArgs(APIBalancer, "--x"),
			WithArgs(Node, "--x"), WithArgs(VolumeProvisioner, "--x")},
		"in process, etcd": {InProcess(), WithStore(EmbeddedEtcd), WithArgs(Etcd, "--x")},
		"API server alone": {InProcess(), WithNodes(0), Without(ControllerManager), Without(Scheduler)},
		"containers": {WithNodes(2), WithImage(Scheduler, "x"), WithArgs(KubeProxy, "--x"), Detached(),
			WithPublishedPort(1, 30002), WithArgs(APIServer, "--x")},
		"high availability": {WithAPIServers(3), WithEtcdMembers(3), WithImage(APIBalancer, "x"),
			WithIPFamily(DualStack)},
		"without what it has": {WithNodes(0), Without(KubeProxy), WithoutDNS(), Without(Etcd)},
	} {
		config := newConfig("x")
		for _, opt := range opts {
			if err := opt(config); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if err := config.check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
