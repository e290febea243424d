package options

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/audit"
	"quintet.dev/quintet/components/apiserver/authn"
	"quintet.dev/quintet/components/apiserver/authz"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/encryption"
	"quintet.dev/quintet/internal/exposition"
	"quintet.dev/quintet/internal/profiles"
)

// The kinds of storage.
const (
	StorageEtcd   = "etcd3"
	StorageMemory = "memory"
)

// How the endpoints of the Service kubernetes are kept.
const (
	EndpointsByLease   = "lease"
	EndpointsByCount   = "master-count"
	EndpointsUnmanaged = "none"
)

// Config of an API server. The zero value serves on a free port of the loopback, from memory, to the users that the
// files it names authenticate. Each field has the flag of its name; see flags.go.
type Config struct {
	// Storage is StorageEtcd or StorageMemory; empty means etcd if EtcdServers are given. Store overrides it, and stays
	// the caller's to close.
	Storage string
	Store   storage.Store
	// Filter stands behind authentication and authorization, before what serves requests; nil is none. It has no flag.
	Filter      func(next http.Handler) http.Handler
	EtcdServers []string
	// EtcdServersOverrides keeps some resources elsewhere: group/resource#url;url...
	EtcdServersOverrides []string
	EtcdCAFile           string
	EtcdCertFile         string
	EtcdKeyFile          string
	EtcdPrefix           string // "/registry" if empty
	// EtcdCompactionInterval is how long the store remembers what was; 0 means five minutes, less never forgets.
	EtcdCompactionInterval time.Duration
	// EtcdHealthTimeout and EtcdReadyTimeout bound the questions behind /livez and /readyz; 0 means two seconds.
	EtcdHealthTimeout, EtcdReadyTimeout time.Duration
	// EtcdLeaseReuse is for how long keys that end at about the same time share a lease; 0 means a minute.
	EtcdLeaseReuse time.Duration
	// EtcdSizePeriod is how often the store is asked for its size, and CountPeriod how old the numbers of objects may
	// be, in metrics; less than 0 leaves them out. 0 means 30 seconds, and a minute.
	EtcdSizePeriod, CountPeriod time.Duration
	// StorageMediaType is how objects are written that have a choice: protobuf if empty.
	StorageMediaType string
	// WatchCacheSizes is resource[.group]#size. Caches size themselves, but 0 makes reads of the resource be never
	// older than the store, as NoWatchCache does with all.
	WatchCacheSizes []string
	NoWatchCache    bool
	// NoGarbageCollection leaves finalizers alone that make a deletion wait for the collector.
	NoGarbageCollection bool
	// DeleteCollectionWorkers is how many objects of a collection are deleted at a time; 0 means 1.
	DeleteCollectionWorkers int
	// Encryption of what lies in the store.
	Encryption encryption.Config
	// EncodingMemory bounds the encoded objects kept for readers, in bytes; 0 means the cache's own default.
	EncodingMemory int64

	// Listener, if given, is served and closed by the server; else it listens on BindAddress and SecurePort.
	Listener         net.Listener
	BindAddress      net.IP
	SecurePort       int
	AdvertiseAddress net.IP
	TLSCertFile      string
	TLSKeyFile       string
	CertDir          string           // where a certificate is kept that the server made for itself; "" keeps none
	Certificate      *tls.Certificate // instead of the files

	Serving          Serving
	ExternalHostname string // in URLs that the server gives out; the advertised address if empty
	// EndpointReconciler is EndpointsByLease, EndpointsByCount or EndpointsUnmanaged; empty means the first. With
	// EndpointsByCount there are Servers of them; 0 means 1. If there are several, custom resources are established
	// once all can have heard of them.
	EndpointReconciler string
	Servers            int
	KubernetesNodePort int // of the Service kubernetes; 0 means none

	ClientCAFile                     string
	TokenAuthFile                    string
	NoAnonymousAuth                  bool
	BootstrapTokenAuth               bool
	RequestHeader                    authn.RequestHeader
	OIDC                             authn.OIDC
	AuthenticationConfigFile         string
	TokenWebhook                     authn.TokenWebhook
	APIAudiences                     []string
	AuthorizationModes               []string // AlwaysAllow if empty and there is no AuthorizationConfigFile
	AuthorizationConfigFile          string
	AuthorizationPolicyFile          string
	AuthorizationWebhook             authz.Webhook
	EnableAdmission                  []string
	DisableAdmission                 []string
	OnlyAdmission                    []string // all plug-ins that are on; excludes the other two
	AdmissionFile                    string   // AdmissionConfiguration
	NotReadySeconds                  *int64   // default toleration of unready nodes; nil means 300
	UnreachableSeconds               *int64
	AllowPrivileged                  bool
	ServiceAccountIssuers            []string
	ServiceAccountKeyFiles           []string
	ServiceAccountSigningKey         string // file
	ServiceAccountSigningEndpoint    string // Unix socket of a process that signs; excludes key files
	ServiceAccountJWKSURI            string
	ServiceAccountMaxTokenExpiration time.Duration
	NoTokenExtension                 bool
	NoTokenLookup                    bool
	ServiceClusterIPRange            string // "10.0.0.0/24" if empty
	ServiceNodePortRange             string // "30000-32767" if empty

	KubeletClientCertificate     string
	KubeletClientKey             string
	KubeletCertificateAuthority  string
	KubeletPreferredAddressTypes []string
	KubeletTimeout               time.Duration
	KubeletPort                  int   // of nodes that don't tell theirs; 0 means 10250
	MaxConnectionBytes           int64 // a second, of each connection that was taken over; 0 means no bound

	Audit audit.Config

	Peers                   PeerAccess
	EgressFile              string // EgressSelectorConfiguration: how others are connected to
	PassRedirects           bool   // of extension servers, to clients
	ProxyClientCert         string // file
	ProxyClientKey          string // file
	EnableAggregatorRouting bool

	MaxRequestsInFlight         int // no bound if 0, as with upstream
	MaxMutatingRequestsInFlight int
	// PriorityAndFairness shares the sum of both bounds between flows of requests, instead of refusing what goes beyond
	// one.
	PriorityAndFairness bool
	RequestTimeout      time.Duration
	EventTTL            time.Duration // 0 means an hour, less keeps events for good
	TracingConfigFile   string
	Profiling           profiles.Options
	LogFiles            bool   // serves /var/log at /logs/
	DebugSocket         string // path of a Unix socket with profiles; "" for none
	Metrics             exposition.Flags

	// CommandLine is all flags with their values, for /flagz, which isn't there without.
	CommandLine func() map[string]string

	// MinCompatibility is the release, "1.34", that what this server writes must be good for; the one before its own if
	// empty.
	MinCompatibility string

	FeatureGates  map[string]bool   // which of them can be set is in package gates
	RuntimeConfig map[string]string // group/version[/resource] or api/<stage>: true or false; must be what is served

	// Identity tells API servers of one cluster apart; the host's name if empty.
	Identity string
	Clock    clock.WithTicker

	// AnonymousGiven, OIDCGiven and AuthorizationWebhookGiven are set by flags: one of that part was given, be it with
	// its default. A file that configures the same then excludes them.
	AnonymousGiven, OIDCGiven, AuthorizationWebhookGiven bool
}

// Complete fills in what was left out and names what can't be.
func (c Config) Complete() (Config, error) {
	if c.Storage == "" {
		c.Storage = StorageMemory
		if len(c.EtcdServers) > 0 {
			c.Storage = StorageEtcd
		}
	}
	if c.Store == nil {
		switch {
		case c.Storage != StorageEtcd && c.Storage != StorageMemory:
			return c, fmt.Errorf("--storage-backend %q is not known: use %s or %s",
				c.Storage, StorageEtcd, StorageMemory)
		case c.Storage == StorageEtcd && len(c.EtcdServers) == 0:
			return c, errors.New("--etcd-servers is needed with --storage-backend=etcd3; " +
				"--storage-backend=memory needs none")
		case c.Storage == StorageMemory && len(c.EtcdServers) > 0:
			return c, errors.New("--etcd-servers is not used with --storage-backend=memory: give one of them")
		}
	}
	if (c.TLSCertFile == "") != (c.TLSKeyFile == "") {
		return c, errors.New("--tls-cert-file and --tls-private-key-file go together: " +
			"give both, or neither for a self-signed certificate")
	}
	if len(c.AuthorizationModes) == 0 && c.AuthorizationConfigFile == "" {
		c.AuthorizationModes = []string{authz.ModeAlwaysAllow}
	}
	if slices.Contains(c.AuthorizationModes, authz.ModeAlwaysAllow) {
		c.NoAnonymousAuth = true // as upstream: requests without credentials may not do everything
	}
	if c.BindAddress == nil {
		c.BindAddress = net.IPv4(127, 0, 0, 1)
	}
	orElse(&c.EtcdPrefix, "/registry")
	c.EtcdPrefix = path.Join("/", c.EtcdPrefix) // as upstream reads it
	orElse(&c.ServiceClusterIPRange, "10.0.0.0/24")
	orElse(&c.ServiceNodePortRange, "30000-32767")
	if len(c.ServiceAccountIssuers) == 0 {
		c.ServiceAccountIssuers = []string{"https://kubernetes.default.svc.cluster.local"}
	}
	if len(c.KubeletPreferredAddressTypes) == 0 {
		c.KubeletPreferredAddressTypes = []string{"Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"}
	}
	orElse(&c.RequestTimeout, time.Minute)
	orElse(&c.EtcdCompactionInterval, 5*time.Minute)
	orElse(&c.EtcdHealthTimeout, 2*time.Second)
	orElse(&c.EtcdReadyTimeout, 2*time.Second)
	orElse(&c.EtcdLeaseReuse, time.Minute)
	orElse(&c.EtcdSizePeriod, 30*time.Second)
	orElse(&c.CountPeriod, time.Minute)
	orElse(&c.Serving.MinRequestTimeout, 30*time.Minute)
	orElse(&c.Serving.StorageInitialization, time.Minute)
	orElse(&c.DeleteCollectionWorkers, 1)
	orElse(&c.Servers, 1)
	orElse(&c.StorageMediaType, runtime.ContentTypeProtobuf)
	orElse(&c.EndpointReconciler, EndpointsByLease)
	for _, check := range []func() error{
		c.checkBounds, c.Serving.check, c.checkStore, c.checkEndpoints, c.checkServiceAccounts, c.checkCompatibility,
	} {
		if err := check(); err != nil {
			return c, err
		}
	}
	if c.Identity == "" {
		c.Identity, _ = os.Hostname()
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return c, nil
}

// orElse sets what was left out.
func orElse[T comparable](field *T, value T) {
	var none T
	if *field == none {
		*field = value
	}
}

func (c *Config) checkStore() error {
	switch c.StorageMediaType {
	case runtime.ContentTypeProtobuf, runtime.ContentTypeJSON, runtime.ContentTypeYAML:
	default:
		return fmt.Errorf("--storage-media-type %q invalid, allowed values: %s, %s, %s", c.StorageMediaType,
			runtime.ContentTypeJSON, runtime.ContentTypeProtobuf, runtime.ContentTypeYAML)
	}
	for _, size := range c.WatchCacheSizes {
		resource, number, ok := strings.Cut(size, "#")
		n, err := strconv.Atoi(number)
		switch {
		case !ok || resource == "":
			return fmt.Errorf("--watch-cache-sizes: invalid value of watch cache size: %s", size)
		case err != nil:
			return fmt.Errorf("--watch-cache-sizes: invalid size of watch cache size: %s", size)
		case n < 0:
			return fmt.Errorf("--watch-cache-sizes: watch cache size cannot be negative: %s", size)
		}
	}
	return nil
}

func (c *Config) checkEndpoints() error {
	switch c.EndpointReconciler {
	case EndpointsByLease, EndpointsByCount, EndpointsUnmanaged:
		return nil
	}
	return fmt.Errorf("--endpoint-reconciler-type %q is not known: use %s, %s or %s", c.EndpointReconciler,
		EndpointsByLease, EndpointsByCount, EndpointsUnmanaged)
}

// checkBounds refuses bounds of requests that can't be kept.
func (c *Config) checkBounds() error {
	switch {
	case c.MaxRequestsInFlight < 0:
		return errors.New("--max-requests-inflight can not be negative value")
	case c.MaxMutatingRequestsInFlight < 0:
		return errors.New("--max-mutating-requests-inflight can not be negative value")
	case c.RequestTimeout < 0:
		return errors.New("--request-timeout can not be negative value")
	}
	return nil
}
