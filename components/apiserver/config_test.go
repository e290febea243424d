package apiserver

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	cliflag "k8s.io/component-base/cli/flag"

	"quintet.dev/quintet/components/apiserver/options"
)

// TestConfigErrors: each says what is wrong and what to do.
func TestConfigErrors(t *testing.T) {
	cases := map[string]struct {
		change func(*options.Config)
		want   string
	}{
		"no etcd": {func(c *options.Config) { c.Storage = options.StorageEtcd }, "--etcd-servers is needed"},
		"store":   {func(c *options.Config) { c.Storage = "disk" }, `--storage-backend "disk" is not known`},
		"two stores": {func(c *options.Config) { c.EtcdServers = []string{"http://127.0.0.1:1"} },
			"--etcd-servers is not used with --storage-backend=memory"},
		"gate": {func(c *options.Config) { c.FeatureGates = map[string]bool{"MutablePVNodeAffinity": true} },
			"MutablePVNodeAffinity=true"},
		"half a pair": {func(c *options.Config) { c.TLSCertFile = "x" }, "go together"},
		"no such cert": {func(c *options.Config) { c.TLSCertFile, c.TLSKeyFile = "/none/x", "/none/y" },
			"--tls-cert-file, --tls-private-key-file: certificate /none/x"},
		"no such CA": {func(c *options.Config) { c.ClientCAFile = "/none/ca" }, "client-ca-file"},
		"mode":       {func(c *options.Config) { c.AuthorizationModes = []string{"Magic"} }, "Magic"},
		"plug-in":    {func(c *options.Config) { c.EnableAdmission = []string{"Magic"} }, "Magic"},
		"range":      {func(c *options.Config) { c.ServiceClusterIPRange = "here" }, "--service-cluster-ip-range"},
		"ports":      {func(c *options.Config) { c.ServiceNodePortRange = "few" }, "--service-node-port-range"},
		"kubelet CA": {func(c *options.Config) { c.KubeletCertificateAuthority = "/none" },
			"--kubelet-certificate-authority"},
		"no issuer": {func(c *options.Config) { c.ServiceAccountIssuers = []string{""} },
			"--service-account-issuer should not be an empty string"},
		"issuer twice": {func(c *options.Config) { c.ServiceAccountIssuers = []string{"a", "a"} },
			`--service-account-issuer "a" is already specified`},
		"issuer URL": {func(c *options.Config) { c.ServiceAccountIssuers = []string{"https://%zz"} },
			"was not a valid URL"},
		"JWKS URI": {func(c *options.Config) { c.ServiceAccountJWKSURI = "http://x" },
			"--service-account-jwks-uri requires https scheme, parsed as: http://x"},
		"token life": {func(c *options.Config) { c.ServiceAccountMaxTokenExpiration = time.Minute },
			"--service-account-max-token-expiration must be between 1 hour and 2^32 seconds"},
		"no such OIDC": {func(c *options.Config) { c.OIDC.ClientID = "x" },
			"oidc-issuer-url and oidc-client-id must be specified together"},
		"authn config": {func(c *options.Config) { c.AuthenticationConfigFile = "/none" },
			"--authentication-config /none: open /none"},
		"authz config": {func(c *options.Config) { c.AuthorizationConfigFile = "/none" },
			"--authorization-config /none: open /none"},
		"no policies": {func(c *options.Config) { c.AuthorizationModes = []string{"ABAC"} },
			"authorization-mode ABAC's authorization policy file not passed"},
		"no ABAC": {func(c *options.Config) { c.AuthorizationPolicyFile = "/none" },
			"cannot specify --authorization-policy-file without mode ABAC"},
		"no such file": {func(c *options.Config) {
			c.AuthorizationModes, c.AuthorizationPolicyFile = []string{"ABAC"},
				"/none"
		}, "--authorization-policy-file: open /none"},
		"signing key": {func(c *options.Config) { c.ServiceAccountSigningKey = "/none" }, "signing-key-file"},
		"goaway": {func(c *options.Config) { c.Serving.GoawayChance = 0.1 },
			"--goaway-chance can not be less than 0 or greater than 0.02"},
		"HSTS": {func(c *options.Config) { c.Serving.HSTS = []string{"always"} },
			"--strict-transport-security-directives invalid"},
		"CORS": {func(c *options.Config) { c.Serving.CORSAllowedOrigins = []string{"example.com"} },
			"does not pin to start/end of host"},
		"TLS version": {func(c *options.Config) { c.Serving.Handshakes.MinVersion = "VersionSSL" },
			`--tls-min-version: unknown tls version "VersionSSL"`},
		"cipher": {func(c *options.Config) { c.Serving.Handshakes.CipherSuites = []string{"ROT13"} },
			"--tls-cipher-suites: Cipher suite ROT13 not supported"},
		"SNI": {func(c *options.Config) { c.Serving.SNI = []cliflag.NamedCertKey{{CertFile: "/none"}} },
			"--tls-sni-cert-key: certificate /none"},
		"delay": {func(c *options.Config) { c.Serving.ShutdownDelay = -1 },
			"--shutdown-delay-duration can not be negative value"},
		"in flight": {func(c *options.Config) { c.MaxRequestsInFlight = -1 },
			"--max-requests-inflight can not be negative value"},
		"mutating": {func(c *options.Config) { c.MaxMutatingRequestsInFlight = -1 },
			"--max-mutating-requests-inflight can not be negative value"},
		"request time": {func(c *options.Config) { c.RequestTimeout = -1 },
			"--request-timeout can not be negative value"},
		"media": {func(c *options.Config) { c.StorageMediaType = "text/csv" },
			`--storage-media-type "text/csv" invalid`},
		"cache size": {func(c *options.Config) { c.WatchCacheSizes = []string{"pods"} },
			"invalid value of watch cache size: pods"},
		"endpoints": {func(c *options.Config) { c.EndpointReconciler = "master" },
			`--endpoint-reconciler-type "master" is not known`},
		"too old": {func(c *options.Config) { c.MinCompatibility = "1.32" },
			"minCompatibilityVersion version 1.32 is not between [1.33, 1.36]"},
		"a patch": {func(c *options.Config) { c.MinCompatibility = "1.36.1" },
			"patch version not allowed, got: kube=1.36.1"},
		"no release": {func(c *options.Config) { c.MinCompatibility = "abc" }, `could not parse "abc" as version`},
		"only and more": {func(c *options.Config) {
			c.OnlyAdmission, c.EnableAdmission = []string{},
				[]string{"AlwaysPullImages"}
		}, "are mutually exclusive"},
		"only unknown": {func(c *options.Config) { c.OnlyAdmission = []string{"Magic"} },
			`admission-control plugin "Magic" is unknown`},
		"two signers": {func(c *options.Config) {
			c.ServiceAccountSigningEndpoint, c.ServiceAccountKeyFiles = "/none", []string{"/none"}
		}, "(They are mutually exclusive)"},
		"abstract": {func(c *options.Config) { c.ServiceAccountSigningEndpoint = "@a b" },
			"must be a valid abstract socket name"},
		"peers' authorities": {func(c *options.Config) {
			c.Peers.CAFile = "/none"
			c.FeatureGates = map[string]bool{"UnknownVersionInteroperabilityProxy": false}
		},
			"--peer-ca-file requires UnknownVersionInteroperabilityProxy feature to be turned on"},
		"peers without a certificate": {func(c *options.Config) { c.Peers.CAFile = "/none" },
			"--peer-ca-file needs --proxy-client-cert-file"},
		"peers' port": {func(c *options.Config) { c.Peers.AdvertisePort = "70000" },
			`--peer-advertise-port "70000" is no port`},
		"egress": {func(c *options.Config) { c.EgressFile = "/none" },
			"--egress-selector-config-file: failed to read egress config"},
		"override": {func(c *options.Config) {
			c.Storage, c.EtcdServers, c.EtcdServersOverrides = options.StorageEtcd, []string{"http://127.0.0.1:1"},
				[]string{"events#http://127.0.0.1:2"}
		}, "--etcd-servers-overrides invalid, must be of format: group/resource#servers"},
		"override without etcd": {
			func(c *options.Config) { c.EtcdServersOverrides = []string{"/events#http://127.0.0.1:2"} },
			"--etcd-servers-overrides needs --storage-backend=etcd3"},
		"hidden metrics": {func(c *options.Config) { c.Metrics.ShowHidden = "1.34" },
			"--show-hidden-metrics-for-version must be omitted or have the value '1.35'"},
		"metric labels": {func(c *options.Config) { c.Metrics.Labels = map[string]string{"a": "b"} },
			`--allow-metric-labels: "a" is not a metric and a label`},
		"labels' file": {func(c *options.Config) { c.Metrics.LabelsFile = "/none" },
			"--allow-metric-labels-manifest: open /none"},
		"verifying key": {func(c *options.Config) { c.ServiceAccountKeyFiles = []string{"/none"} },
			"--service-account-key-file"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			c := options.Config{Storage: options.StorageMemory}
			test.change(&c)
			if _, err := New(c); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestRuntimeConfig(t *testing.T) {
	for setting, want := range map[string]string{
		"api/ga=true":                          "",
		"api/beta=false":                       "",
		"apps/v1=true":                         "",
		"apps/v1/deployments=1":                "",
		"v1=true":                              "",
		"/v1=true":                             "",
		"api/v1":                               "",
		"api/v1/pods=true":                     "",
		"v1/none=true":                         "",
		"api/v1=false":                         "api/v1=false is not supported",
		"v2=true":                              "runtime-config invalid key v2",
		"api/v2=true":                          "unknown api groups api/v2",
		"apiextensions.k8s.io/v1=true":         "",
		"storage.k8s.io/v1beta1=false":         "",
		"api/all=true":                         "",
		"api/alpha=true,api/beta=true":         "",
		"storage.k8s.io/v1beta1=true":          "",
		"storage.k8s.io/v1beta1":               "",
		"storage.k8s.io/v1alpha1=true":         "",
		"storagemigration.k8s.io/v1beta1=true": "",
		"resource.k8s.io/v1beta1/resourceclaims=true": "",
		"api/all=false": "api/all=false is not supported",
		"api/ga=false":  "api/ga=false is not supported",
		"api/all=1":     "invalid value api/all=1",
		"scheduling.k8s.io/v1alpha2=true": "there is no scheduling.k8s.io/v1alpha2/podgroups (feature gate " +
			"GenericWorkload), scheduling.k8s.io/v1alpha2/workloads",
		"scheduling.k8s.io/v1alpha2/workloads=true": "there is no scheduling.k8s.io/v1alpha2/workloads (feature gate " +
			"GenericWorkload)",
		"storage.k8s.io/v1beta1/storageclasses=true": "storage.k8s.io/v1beta1/storageclasses=true is not supported: there " +
			"is no such resource",
		"apps/v1/deployments=false,batch/v1=false": "",
		"v1=false":                               "v1=false is not supported: the server itself needs it",
		"storage.k8s.io/v1/storageclasses=false": "storage.k8s.io/v1/storageclasses=false is not supported",
		"apps/v1/deploys=true":                   "apps/v1/deploys=true is not supported",
		"apps/v1=maybe":                          "invalid value of apps/v1: maybe",
		"apps":                                   "runtime-config invalid key apps",
		"apps=true":                              "runtime-config invalid key apps",
		"apps/v1/Deployments=false":              `invalid key apps/v1/Deployments: group/version/resource and resource is always lowercase plural, not "Deployments"`,
		"v1/Pods=true":                           "",
		"apps/v9=true":                           "group version apps/v9 that has not been registered",
		"example.com/v1=true":                    "unknown api groups example.com/v1",
		"apps/v9=true,example.com/v1=true":       "unknown api groups example.com/v1",
	} {
		t.Run(setting, func(t *testing.T) {
			c := &options.Config{}
			fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
			c.AddFlags(fs)
			if err := fs.Parse([]string{"--storage-backend=memory", "--secure-port=0",
				"--runtime-config=" + setting}); err != nil {
				t.Fatal(err)
			}
			s, err := New(*c)
			if err == nil {
				discard(t, s)
			}
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

// TestEventTTL: events end after an hour, unless another time is wanted, or none.
func TestEventTTL(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{0: time.Hour, time.Minute: time.Minute, -1: 0} {
		s, err := New(options.Config{Storage: options.StorageMemory, EventTTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range s.registry.table {
			if r.Kind.Prefix == "events" && r.Kind.TTL(&corev1.Event{}) != want {
				t.Errorf("%v: kept for %v", ttl, r.Kind.TTL(&corev1.Event{}))
			}
		}
		discard(t, s)
	}
}

// discard ends a server that was made and is not needed.
func discard(t *testing.T, s *Server) {
	t.Helper()
	ended, end := context.WithCancel(t.Context())
	end()
	if err := s.Run(ended); err != nil {
		t.Error(err)
	}
}
