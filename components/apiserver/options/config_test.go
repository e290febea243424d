package options

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"k8s.io/utils/clock"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// TestComplete: what can't be is refused with the flag's name, and what was left out is filled in.
func TestComplete(t *testing.T) {
	issuers := func(of ...string) func(*Config) { return func(c *Config) { c.ServiceAccountIssuers = of } }
	for name, test := range map[string]struct {
		set  func(*Config)
		want string // of the error; "" if it is fine
	}{
		"nothing":              {func(*Config) {}, ""},
		"unknown storage":      {func(c *Config) { c.Storage = "disk" }, `--storage-backend "disk" is not known`},
		"etcd without servers": {func(c *Config) { c.Storage = StorageEtcd }, "--etcd-servers is needed"},
		"memory with servers": {func(c *Config) { c.Storage, c.EtcdServers = StorageMemory, []string{"x"} },
			"--etcd-servers is not used"},
		"certificate alone": {func(c *Config) { c.TLSCertFile = "x" }, "go together"},
		"key alone":         {func(c *Config) { c.TLSKeyFile = "x" }, "go together"},
		"requests": {func(c *Config) { c.MaxRequestsInFlight = -1 },
			"--max-requests-inflight can not be negative"},
		"mutating requests": {func(c *Config) { c.MaxMutatingRequestsInFlight = -1 },
			"--max-mutating-requests-inflight can not be"},
		"timeout":           {func(c *Config) { c.RequestTimeout = -1 }, "--request-timeout can not be negative"},
		"YAML in the store": {func(c *Config) { c.StorageMediaType = "application/yaml" }, ""},
		"media type": {func(c *Config) { c.StorageMediaType = "text/plain" },
			`--storage-media-type "text/plain" invalid`},
		"cache size": {func(c *Config) { c.WatchCacheSizes = []string{"pods#10"} }, ""},
		"cache size, no number": {func(c *Config) { c.WatchCacheSizes = []string{"pods#x"} },
			"invalid size of watch cache size: pods#x"},
		"cache size, no #": {func(c *Config) { c.WatchCacheSizes = []string{"pods"} },
			"invalid value of watch cache size: pods"},
		"cache size, negative": {func(c *Config) { c.WatchCacheSizes = []string{"pods#-1"} },
			"watch cache size cannot be negative: pods#-1"},
		"endpoints": {func(c *Config) { c.EndpointReconciler = "vote" },
			`--endpoint-reconciler-type "vote" is not known`},
		"empty issuer":      {issuers(""), "should not be an empty string"},
		"issuer, no URL":    {issuers("a b:c"), "contained a ':' but was not a valid URL"},
		"issuer, no scheme": {issuers("me"), ""},
		"same issuer":       {issuers("https://a", "https://a"), "is already specified"},
		"JWKS over HTTP":    {func(c *Config) { c.ServiceAccountJWKSURI = "http://a" }, "requires https scheme"},
		"JWKS, no URL":      {func(c *Config) { c.ServiceAccountJWKSURI = "https://a b" }, "must be a valid URL"},
		"tokens, too short": {func(c *Config) { c.ServiceAccountMaxTokenExpiration = time.Minute },
			"between 1 hour and 2^32"},
		"tokens, an hour": {func(c *Config) { c.ServiceAccountMaxTokenExpiration = time.Hour }, ""},
		"tokens, for ever": {func(c *Config) { c.ServiceAccountMaxTokenExpiration = (1<<32 + 1) * time.Second },
			"between 1 hour and 2^32"},
		"signer and key": {func(c *Config) { c.ServiceAccountSigningEndpoint, c.ServiceAccountSigningKey = "/s", "k" },
			"mutually exclusive"},
		"signer's abstract name": {func(c *Config) { c.ServiceAccountSigningEndpoint = "@a.b" }, ""},
		"signer's broken name": {func(c *Config) { c.ServiceAccountSigningEndpoint = "@a..b" },
			"must be a valid abstract socket name"},
		"own release":  {func(c *Config) { c.MinCompatibility = "1.36" }, ""},
		"three before": {func(c *Config) { c.MinCompatibility = "1.33" }, ""},
		"four before": {func(c *Config) { c.MinCompatibility = "1.32" },
			"version 1.32 is not between [1.33, 1.36]"},
		"the next one": {func(c *Config) { c.MinCompatibility = "1.37" },
			"version 1.37 is not between [1.33, 1.36]"},
		"a patch": {func(c *Config) { c.MinCompatibility = "1.36.1" },
			"patch version not allowed, got: kube=1.36.1"},
		"no release": {func(c *Config) { c.MinCompatibility = "new" }, `could not parse "new" as version`},
	} {
		var config Config
		test.set(&config)
		_, err := config.Complete()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestDefaults(t *testing.T) {
	for name, test := range map[string]struct {
		given Config
		want  string // storage, prefix, authorization, anonymous users refused
	}{
		"nothing": {Config{}, "memory /registry [AlwaysAllow] true"},
		"etcd":    {Config{EtcdServers: []string{"http://a"}}, "etcd3 /registry [AlwaysAllow] true"},
		"prefix":  {Config{EtcdPrefix: "mine//x/"}, "memory /mine/x [AlwaysAllow] true"},
		"modes":   {Config{AuthorizationModes: []string{"RBAC"}}, "memory /registry [RBAC] false"},
		"a file":  {Config{AuthorizationConfigFile: "f"}, "memory /registry [] false"},
		"among modes": {Config{AuthorizationModes: []string{"RBAC", "AlwaysAllow"}},
			"memory /registry [RBAC AlwaysAllow] true"},
	} {
		c, err := test.given.Complete()
		got := fmt.Sprintf("%s %s %v %v", c.Storage, c.EtcdPrefix, c.AuthorizationModes, c.NoAnonymousAuth)
		if err != nil || got != test.want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	store := memory.New(clock.RealClock{})
	defer store.Close()
	if c, err := (Config{Store: store, Storage: "mine", RequestTimeout: time.Hour}).Complete(); err != nil ||
		c.RequestTimeout != time.Hour || c.EtcdCompactionInterval != 5*time.Minute || c.MinCompatibility != "1.35" ||
		c.Identity == "" || c.Clock == nil || !c.BindAddress.IsLoopback() {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestCheckOrigin(t *testing.T) {
	for pattern, ok := range map[string]bool{
		`^https://a\.example$`: true, `//a\.example(:|$)`: true, "": false, "(": false,
		`a\.example`: false, `^a\.example`: false, `a\.example$`: false,
	} {
		if err := checkOrigin(pattern); (err == nil) != ok {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

// TestAdvertised: the address that clients in the cluster are told, by what is configured and listened on.
func TestAdvertised(t *testing.T) {
	const machine = "the machine's"
	v4 := net.IPv4(192, 0, 2, 1)
	for name, test := range map[string]struct {
		advertise net.IP
		bound     net.Addr
		want      string
	}{
		"as bound":            {nil, &net.TCPAddr{IP: v4, Port: 6443}, "192.0.2.1 6443"},
		"as configured":       {v4, &net.TCPAddr{IP: net.IPv4zero, Port: 1}, "192.0.2.1 1"},
		"loopback, as asked":  {net.IPv4(127, 0, 0, 9), &net.TCPAddr{IP: net.IPv4zero, Port: 1}, "127.0.0.9 1"},
		"not of IP":           {v4, &net.UnixAddr{}, "192.0.2.1 0"},
		"unspecified, config": {net.IPv4zero, &net.TCPAddr{IP: v4, Port: 1}, machine},
		"all":                 {nil, &net.TCPAddr{IP: net.IPv4zero, Port: 1}, machine},
	} {
		c := Config{AdvertiseAddress: test.advertise, BindAddress: net.IPv4zero}
		ip, port := c.Advertised(test.bound)
		got := fmt.Sprintf("%s %d", ip, port)
		if own := c.MachineAddress(); test.want == machine {
			if test.advertise == nil && own.IsLoopback() {
				own = nil // nothing that others reach
			}
			test.want = fmt.Sprintf("%s 1", own)
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestEtcdOverrides(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "[]",
		"/events#http://a":             "[{[http://a] [events]}]",
		"apps/x#http://a;http://b":     "[{[http://a http://b] [x.apps]}]",
		"/a#h;g /b#x /c#g;h":           "[{[h g] [a c]} {[x] [b]}]",
		"events#http://a":              "format",
		"/events":                      "format",
		"/events#http://a#b":           "format",
		"/events#http://a;":            "format",
		"apps/v1/deployments#http://a": "format",
	} {
		c := Config{Storage: StorageEtcd, EtcdServersOverrides: strings.Fields(text)}
		overrides, err := c.EtcdOverrides()
		if got := fmt.Sprint(overrides); err == nil && got != want || err != nil && want != "format" {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	c := Config{Storage: StorageMemory, EtcdServersOverrides: []string{"/events#http://a"}}
	if _, err := c.EtcdOverrides(); err == nil {
		t.Error("overrides of what is kept in memory")
	}
}

// TestCacheDisabled: events have no cache by default, and the last size of a resource counts.
func TestCacheDisabled(t *testing.T) {
	pods, events := schema.GroupResource{Resource: "pods"}, schema.GroupResource{Resource: "events"}
	toys := schema.GroupResource{Group: "example.com", Resource: "toys"}
	for name, test := range map[string]struct {
		config Config
		want   []bool // of pods, events, toys
	}{
		"by default":     {Config{}, []bool{false, true, false}},
		"no cache":       {Config{NoWatchCache: true}, []bool{true, true, true}},
		"one of a group": {Config{WatchCacheSizes: []string{"toys.example.com#0"}}, []bool{false, true, true}},
		"others": {Config{WatchCacheSizes: []string{"events#100", "toys#0", "pods#0", "pods#5"}},
			[]bool{false, false, false}},
	} {
		var got []bool
		for _, r := range []schema.GroupResource{pods, events, toys} {
			got = append(got, test.config.CacheDisabled(r))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestPeerCheck(t *testing.T) {
	for name, test := range map[string]struct {
		access      PeerAccess
		on, hasCert bool
		want        string
	}{
		"nothing":            {PeerAccess{}, false, false, ""},
		"off":                {PeerAccess{CAFile: "x"}, false, true, "--peer-ca-file requires UnknownVersionInteroperabilityProxy"},
		"without a client":   {PeerAccess{CAFile: "x"}, true, false, "--peer-ca-file needs --proxy-client-cert-file"},
		"complete":           {PeerAccess{CAFile: "x", AdvertisePort: "65535"}, true, true, ""},
		"port 0":             {PeerAccess{AdvertisePort: "0"}, true, true, "is no port"},
		"port out of range":  {PeerAccess{AdvertisePort: "65536"}, true, true, "is no port"},
		"port with its name": {PeerAccess{AdvertisePort: "https"}, true, true, "is no port"},
	} {
		err := test.access.Check(test.on, test.hasCert)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
