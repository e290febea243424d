package apiserver

import (
	"net"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"quintet.dev/quintet/components/apiserver/authz"
)

// AddFlags binds the configuration to flags with upstream's names
// (https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/), and sets upstream's defaults.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	c.addStoreFlags(fs)
	c.addServingFlags(fs)
	c.addAuthFlags(fs)
	c.addKubeletFlags(fs)
}

func (c *Config) addStoreFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Storage, "storage-backend", StorageEtcd, "Where objects are kept: etcd3, or memory, which forgets them at exit.")
	fs.StringSliceVar(&c.EtcdServers, "etcd-servers", nil, "etcd's client URLs, scheme://host:port, separated by commas.")
	fs.StringVar(&c.EtcdCAFile, "etcd-cafile", "", "Authority that signed etcd's certificates.")
	fs.StringVar(&c.EtcdCertFile, "etcd-certfile", "", "Client certificate for etcd.")
	fs.StringVar(&c.EtcdKeyFile, "etcd-keyfile", "", "Key of the client certificate for etcd.")
	fs.StringVar(&c.EtcdPrefix, "etcd-prefix", "/registry", "Prefix of all keys in etcd.")
	c.EtcdCompactionInterval = 5 * time.Minute
	fs.Var((*interval)(&c.EtcdCompactionInterval), "etcd-compaction-interval", "How long etcd remembers what was; 0 leaves compaction to others.")
	fs.DurationVar(&c.EventTTL, "event-ttl", time.Hour, "How long events are kept.")
}

func (c *Config) addServingFlags(fs *pflag.FlagSet) {
	c.BindAddress = net.IPv4zero
	fs.IPVar(&c.BindAddress, "bind-address", c.BindAddress, "Address to listen on; 0.0.0.0 is all of them.")
	fs.IntVar(&c.SecurePort, "secure-port", 6443, "Port to serve HTTPS on; 0 takes a free one.")
	fs.IPVar(&c.AdvertiseAddress, "advertise-address", nil, "Address at which the cluster reaches this server; by default the bind address, or this machine's first.")
	fs.StringVar(&c.TLSCertFile, "tls-cert-file", "", "Serving certificate, with intermediates after it.")
	fs.StringVar(&c.TLSKeyFile, "tls-private-key-file", "", "Key of the serving certificate.")
	fs.StringVar(&c.CertDir, "cert-dir", "", "Where a self-signed serving certificate is kept, if none is given; empty keeps it in memory.")
	fs.IntVar(&c.MaxRequestsInFlight, "max-requests-inflight", 400, "Bound of short reading requests served at a time; 0 means none.")
	fs.IntVar(&c.MaxMutatingRequestsInFlight, "max-mutating-requests-inflight", 200, "Bound of short writing requests served at a time; 0 means none.")
	fs.DurationVar(&c.RequestTimeout, "request-timeout", time.Minute, "Bound of short requests.")
	fs.BoolVar(&c.Profiling, "profiling", true, "Serve profiles at /debug/pprof/.")
	fs.StringVar(&c.ServiceClusterIPRange, "service-cluster-ip-range", "10.0.0.0/24", "Addresses of Services: one CIDR, or two of different families.")
	fs.StringVar(&c.ServiceNodePortRange, "service-node-port-range", "30000-32767", "Ports that Services may take on nodes.")
	fs.BoolVar(&c.AllowPrivileged, "allow-privileged", false, "Let containers ask for privileged mode.")
}

func (c *Config) addAuthFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.ClientCAFile, "client-ca-file", "", "Authorities of client certificates; the common name is the user, the organizations are the groups.")
	fs.StringVar(&c.TokenAuthFile, "token-auth-file", "", "CSV of bearer tokens: token,user,uid,\"group1,group2\".")
	fs.Var((*not)(&c.NoAnonymousAuth), "anonymous-auth", "Serve requests without credentials as system:anonymous.")
	fs.Lookup("anonymous-auth").NoOptDefVal = "true"
	fs.BoolVar(&c.BootstrapTokenAuth, "enable-bootstrap-token-auth", false, "Let Secrets of type bootstrap.kubernetes.io/token in kube-system authenticate.")
	fs.StringSliceVar(&c.AuthorizationModes, "authorization-mode", []string{authz.ModeAlwaysAllow}, "Authorizers, in their order: Node, RBAC, AlwaysAllow, AlwaysDeny.")
	fs.StringSliceVar(&c.EnableAdmission, "enable-admission-plugins", nil, "Admission plug-ins to turn on besides the default ones.")
	fs.StringSliceVar(&c.DisableAdmission, "disable-admission-plugins", nil, "Admission plug-ins to turn off.")
	fs.Int64Var(&c.NotReadySeconds, "default-not-ready-toleration-seconds", 300, "How long pods stay on a node that is not ready, unless they say so themselves.")
	fs.Int64Var(&c.UnreachableSeconds, "default-unreachable-toleration-seconds", 300, "How long pods stay on a node that is unreachable, unless they say so themselves.")
	fs.StringSliceVar(&c.ServiceAccountIssuers, "service-account-issuer", nil, "Issuer of service account tokens; the first signs, all are accepted.")
	fs.StringSliceVar(&c.ServiceAccountKeyFiles, "service-account-key-file", nil, "Keys that verify service account tokens.")
	fs.StringVar(&c.ServiceAccountSigningKey, "service-account-signing-key-file", "", "Private key that signs service account tokens.")
	fs.StringVar(&c.ServiceAccountJWKSURI, "service-account-jwks-uri", "", "Where the keys of tokens can be read; by default at this server.")
	fs.DurationVar(&c.ServiceAccountMaxTokenExpiration, "service-account-max-token-expiration", 0, "Longest life of a service account token; 0 means no bound.")
	fs.StringSliceVar(&c.APIAudiences, "api-audiences", nil, "What tokens must be meant for to be accepted here; by default the issuer.")
	r := &c.RequestHeader
	fs.StringVar(&r.ClientCAFile, "requestheader-client-ca-file", "", "Authorities of proxies that say in headers who their user is.")
	fs.StringSliceVar(&r.AllowedNames, "requestheader-allowed-names", nil, "Common names of such proxies; empty allows all that the authority signed.")
	fs.StringSliceVar(&r.UsernameHeaders, "requestheader-username-headers", nil, "Headers with the user's name.")
	fs.StringSliceVar(&r.UIDHeaders, "requestheader-uid-headers", nil, "Headers with the user's UID.")
	fs.StringSliceVar(&r.GroupHeaders, "requestheader-group-headers", nil, "Headers with the user's groups.")
	fs.StringSliceVar(&r.ExtraHeaderPrefixes, "requestheader-extra-headers-prefix", nil, "Prefixes of headers with more about the user.")
}

func (c *Config) addKubeletFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.KubeletClientCertificate, "kubelet-client-certificate", "", "Client certificate for kubelets.")
	fs.StringVar(&c.KubeletClientKey, "kubelet-client-key", "", "Key of the client certificate for kubelets.")
	fs.StringVar(&c.KubeletCertificateAuthority, "kubelet-certificate-authority", "", "Authorities of kubelets' serving certificates; empty doesn't verify them.")
	fs.StringSliceVar(&c.KubeletPreferredAddressTypes, "kubelet-preferred-address-types",
		[]string{"Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"}, "Which of a node's addresses is used, in order.")
	fs.DurationVar(&c.KubeletTimeout, "kubelet-timeout", 5*time.Second, "Bound of connecting to a kubelet.")
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
