package options

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestFlags(t *testing.T) {
	c := &Config{}
	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	c.AddFlags(fs)
	args := strings.Fields("--storage-backend=memory --secure-port=0 --authorization-mode=Node,RBAC " +
		"--anonymous-auth=false --etcd-compaction-interval=0 --event-ttl=0 --tls-cert-file=x")
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	if !c.NoAnonymousAuth || c.EtcdCompactionInterval >= 0 || c.EventTTL >= 0 || len(c.AuthorizationModes) != 2 {
		t.Errorf("got %+v", c)
	}
	if err := fs.Parse([]string{"--no-such-flag"}); err == nil || !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("an unknown flag: %v", err)
	}
}

// TestFlagsGivenWithDefaults: some flags exclude a file even if they say nothing new.
func TestFlagsGivenWithDefaults(t *testing.T) {
	for flag, want := range map[string][2]bool{
		"--secure-port=0": {}, "--oidc-username-claim=sub": {true, false}, "--oidc-required-claim=a=b": {true, false},
		"--authorization-webhook-version=v1beta1":           {false, true},
		"--authorization-webhook-cache-authorized-ttl=5m0s": {false, true},
	} {
		c := &Config{}
		fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
		c.AddFlags(fs)
		if err := fs.Parse([]string{flag}); err != nil {
			t.Fatal(err)
		}
		if got := [2]bool{c.OIDCGiven, c.AuthorizationWebhookGiven}; got != want {
			t.Errorf("%s: given %v, want %v", flag, got, want)
		}
	}
}

// TestFixedFlags: what can't be changed may be said, and nothing else may.
func TestFixedFlags(t *testing.T) {
	for arg, want := range map[string]string{
		"--watch-cache=false":                         "",
		"--apiserver-count=0":                         "should be a positive number, but value '0' provided",
		"--min-compatibility-version=kube=1.34":       "",
		"--min-compatibility-version=wardle=1.2":      "component not registered: wardle",
		"--emulated-version=kube=1.36":                "",
		"--emulated-version=1.35":                     "emulates no other",
		"--coordinated-leadership-lease-duration=15s": "",
		"--default-watch-cache-size=500":              "",
		"--min-request-timeout=0":                     "must be greater than 0",
		"--lease-reuse-duration-seconds=30":           "",
	} {
		c := &Config{}
		fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
		c.AddFlags(fs)
		if err := fs.Parse([]string{arg}); (err == nil) != (want == "") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", arg, err, want)
		}
	}
}

// TestPeerAdvertiseIP: others may be told of a host name, too.
func TestPeerAdvertiseIP(t *testing.T) {
	for host, ok := range map[string]bool{"": true, "192.0.2.1": true, "2001:db8::1": true, "api-1.example.com": true,
		"a b": false, "192.0.2.1:443": false} {
		if err := (&PeerAccess{AdvertiseIP: host}).Check(true, true); (err == nil) != ok {
			t.Errorf("%q: %v", host, err)
		}
	}
}
