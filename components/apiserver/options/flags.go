package options

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
)

// AddFlags binds the configuration to flags with upstream's names
// (https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/), and sets upstream's defaults.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	c.addReleaseFlags(fs)
	c.addStoreFlags(fs)
	c.addServingFlags(fs)
	c.addAuthenticationFlags(fs)
	c.addAuthorizationFlags(fs)
	c.addAdmissionFlags(fs)
	c.addKubeletFlags(fs)
	c.Audit.AddFlags(fs)
	c.addAggregatorFlags(fs)
	c.Peers.addFlags(fs)
	c.Serving.addFlags(fs)
	addFixedFlags(fs)
	c.CommandLine = commandLine(fs)
}

func (c *Config) addStoreFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Storage, "storage-backend", StorageEtcd,
		"Where objects are kept: etcd3, or memory, which forgets them at exit.")
	fs.StringSliceVar(&c.EtcdServers, "etcd-servers", nil,
		"etcd's client URLs, scheme://host:port, separated by commas.")
	fs.StringSliceVar(&c.EtcdServersOverrides, "etcd-servers-overrides", nil,
		"Other etcds for some resources: group/resource#url;url..., separated by commas.")
	fs.StringVar(&c.EtcdCAFile, "etcd-cafile", "", "Authority that signed etcd's certificates.")
	fs.StringVar(&c.EtcdCertFile, "etcd-certfile", "", "Client certificate for etcd.")
	fs.StringVar(&c.EtcdKeyFile, "etcd-keyfile", "", "Key of the client certificate for etcd.")
	fs.StringVar(&c.EtcdPrefix, "etcd-prefix", "/registry", "Prefix of all keys in etcd.")
	c.EtcdCompactionInterval = 5 * time.Minute
	fs.Var((*interval)(&c.EtcdCompactionInterval), "etcd-compaction-interval",
		"How long etcd remembers what was; 0 leaves compaction to others.")
	fs.DurationVar(&c.EtcdHealthTimeout, "etcd-healthcheck-timeout", 2*time.Second,
		"Bound of the question whether etcd is alive.")
	fs.DurationVar(&c.EtcdReadyTimeout, "etcd-readycheck-timeout", 2*time.Second,
		"Bound of the question whether etcd is ready.")
	c.EtcdSizePeriod, c.CountPeriod = 30*time.Second, time.Minute
	fs.Var((*interval)(&c.EtcdSizePeriod), "etcd-db-metric-poll-interval",
		"How often etcd is asked for its size; 0 never.")
	fs.Var((*interval)(&c.CountPeriod), "etcd-count-metric-poll-period",
		"How old the number of objects in metrics may be; 0 leaves it out.")
	c.EtcdLeaseReuse = time.Minute
	fs.Var((*seconds)(&c.EtcdLeaseReuse), "lease-reuse-duration-seconds",
		"For how many seconds objects that end at about the same time share a lease of etcd.")
	fs.StringVar(&c.StorageMediaType, "storage-media-type", runtime.ContentTypeProtobuf,
		"How objects lie in the store: application/vnd.kubernetes.protobuf, application/json or application/yaml.")
	fs.Var((*not)(&c.NoWatchCache), "watch-cache",
		"Let reads that may be old be answered without asking the store. Without it, none is.")
	fs.Lookup("watch-cache").NoOptDefVal = "true"
	fs.StringSliceVar(&c.WatchCacheSizes, "watch-cache-sizes", nil,
		"Sizes of caches, resource[.group]#size. They size themselves, but 0 is --watch-cache=false for one resource.")
	fs.Int("default-watch-cache-size", 100, "")
	deprecate(fs, "default-watch-cache-size", "caches size themselves.")
	fs.Var((*not)(&c.NoGarbageCollection), "enable-garbage-collector",
		"Let deletions wait for the garbage collector, as they ask to.")
	fs.Lookup("enable-garbage-collector").NoOptDefVal = "true"
	fs.IntVar(&c.DeleteCollectionWorkers, "delete-collection-workers", 1,
		"How many objects of a collection are deleted at a time.")
	fs.StringVar(&c.Encryption.File, "encryption-provider-config", "",
		"EncryptionConfiguration that says how objects are encrypted in the store.")
	fs.BoolVar(&c.Encryption.Reload, "encryption-provider-config-automatic-reload", false,
		"Read the file of --encryption-provider-config again when it changes.")
	c.EventTTL = time.Hour
	fs.Var((*interval)(&c.EventTTL), "event-ttl", "How long events are kept; 0 keeps them for good.")
}

func (c *Config) addServingFlags(fs *pflag.FlagSet) {
	c.BindAddress = net.IPv4zero
	fs.IPVar(&c.BindAddress, "bind-address", c.BindAddress, "Address to listen on; 0.0.0.0 is all of them.")
	fs.IntVar(&c.SecurePort, "secure-port", 6443, "Port to serve HTTPS on; 0 takes a free one.")
	fs.IPVar(&c.AdvertiseAddress, "advertise-address", nil,
		"Address at which the cluster reaches this server; by default the bind address, or this machine's first.")
	fs.StringVar(&c.TLSCertFile, "tls-cert-file", "", "Serving certificate, with intermediates after it.")
	fs.StringVar(&c.TLSKeyFile, "tls-private-key-file", "", "Key of the serving certificate.")
	fs.StringVar(&c.CertDir, "cert-dir", "",
		"Where a self-signed serving certificate is kept, if none is given; empty keeps it in memory.")
	fs.IntVar(&c.MaxRequestsInFlight, "max-requests-inflight", 400,
		"Bound of short reading requests served at a time; 0 means none.")
	fs.IntVar(&c.MaxMutatingRequestsInFlight, "max-mutating-requests-inflight", 200,
		"Bound of short writing requests served at a time; 0 means none.")
	fs.BoolVar(&c.PriorityAndFairness, "enable-priority-and-fairness", true,
		"Queue requests by flow schemas and priority levels when there are too many.")
	fs.DurationVar(&c.RequestTimeout, "request-timeout", time.Minute, "Bound of short requests.")
	fs.StringVar(&c.TracingConfigFile, "tracing-config-file", "",
		"TracingConfiguration: where spans of requests are sent, and of how many.")
	c.Profiling.On = true
	c.Profiling.AddFlags(fs)
	fs.BoolVar(&c.LogFiles, "enable-logs-handler", false, "Serve the files of /var/log at /logs/.")
	fs.StringVar(&c.DebugSocket, "debug-socket-path", "",
		"Unix socket at which profiles are served to all that may open it.")
	c.Metrics.AddFlags(fs)
	fs.StringVar(&c.ExternalHostname, "external-hostname", "",
		"Host by which the server is known in URLs that it gives out; by default the advertised address.")
	fs.StringVar(&c.EndpointReconciler, "endpoint-reconciler-type", EndpointsByLease,
		"How the endpoints of the Service kubernetes are kept: lease, master-count (deprecated), or none.")
	fs.Var(newCount(&c.Servers), "apiserver-count",
		"How many API servers there are, for --endpoint-reconciler-type=master-count. If there are several, "+
			"definitions of custom resources are established after five seconds.")
	deprecate(fs, "apiserver-count", "--endpoint-reconciler-type=lease needs no number.")
	fs.IntVar(&c.KubernetesNodePort, "kubernetes-service-node-port", 0,
		"Node port of the Service kubernetes; 0 makes it ClusterIP.")
	fs.StringVar(&c.ServiceClusterIPRange, "service-cluster-ip-range", "10.0.0.0/24",
		"Addresses of Services: one CIDR, or two of different families.")
	fs.StringVar(&c.ServiceNodePortRange, "service-node-port-range", "30000-32767",
		"Ports that Services may take on nodes.")
	fs.BoolVar(&c.AllowPrivileged, "allow-privileged", false, "Let containers ask for privileged mode.")
}

func (c *Config) addKubeletFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.KubeletClientCertificate, "kubelet-client-certificate", "", "Client certificate for kubelets.")
	fs.StringVar(&c.KubeletClientKey, "kubelet-client-key", "", "Key of the client certificate for kubelets.")
	fs.StringVar(&c.KubeletCertificateAuthority, "kubelet-certificate-authority", "",
		"Authorities of kubelets' serving certificates; empty doesn't verify them.")
	fs.StringSliceVar(&c.KubeletPreferredAddressTypes, "kubelet-preferred-address-types",
		[]string{"Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"},
		"Which of a node's addresses is used, in order.")
	fs.Int64Var(&c.MaxConnectionBytes, "max-connection-bytes-per-sec", 0,
		"Bound of the bytes per second on each connection that was taken over (exec, attach, port-forward, proxy); "+
			"0 means none.")
	fs.IntVar(&c.KubeletPort, "kubelet-port", 10250, "Port of kubelets whose nodes don't tell it.")
	deprecate(fs, "kubelet-port", "nodes tell the port of their kubelet.")
	fs.Uint("kubelet-read-only-port", 10255, "")
	deprecate(fs, "kubelet-read-only-port", "nothing is asked there.")
	fs.DurationVar(&c.KubeletTimeout, "kubelet-timeout", 5*time.Second, "Bound of connecting to a kubelet.")
}

// deprecate marks a flag as one that is to go. That fails for flags that don't exist.
func deprecate(fs *pflag.FlagSet, name, why string) {
	if err := fs.MarkDeprecated(name, why); err != nil {
		panic(err)
	}
}

// count is a positive number of servers.
type count int

// newCount sets a number to what it is by default.
func newCount(n *int) *count {
	*n = 1
	return (*count)(n)
}

func (c *count) String() string { return strconv.Itoa(int(*c)) }
func (c *count) Type() string   { return "int" }
func (c *count) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err == nil && n <= 0 {
		err = fmt.Errorf("should be a positive number, but value '%d' provided", n)
	}
	*c = count(n)
	return err
}

// not is a flag that sets the opposite of what it says.
type not bool

func (n *not) String() string { return strconv.FormatBool(!bool(*n)) }
func (n *not) Type() string   { return "bool" }
func (n *not) Set(s string) error {
	v, err := strconv.ParseBool(s)
	*n = not(!v)
	return err
}

// interval is a duration of which 0 means never, which Config writes as a negative one.
type interval time.Duration

func (i *interval) String() string { return time.Duration(*i).String() }
func (i *interval) Type() string   { return "duration" }
func (i *interval) Set(s string) error {
	d, err := time.ParseDuration(s)
	if d == 0 {
		d = -1
	}
	*i = interval(d)
	return err
}
