package apiserver

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestFlags(t *testing.T) {
	c := &Config{}
	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	c.AddFlags(fs)
	args := strings.Fields("--storage-backend=memory --secure-port=0 --authorization-mode=Node,RBAC --anonymous-auth=false --etcd-compaction-interval=0 --tls-cert-file=x")
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	if !c.NoAnonymousAuth || c.EtcdCompactionInterval >= 0 || len(c.AuthorizationModes) != 2 {
		t.Errorf("got %+v", c)
	}
	if err := fs.Parse([]string{"--no-such-flag"}); err == nil || !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("an unknown flag: %v", err)
	}
}

// TestConfigErrors: each says what is wrong and what to do.
func TestConfigErrors(t *testing.T) {
	cases := map[string]struct {
		change func(*Config)
		want   string
	}{
		"no etcd":       {func(c *Config) { c.Storage = StorageEtcd }, "--etcd-servers is needed"},
		"store":         {func(c *Config) { c.Storage = "disk" }, `--storage-backend "disk" is not known`},
		"half a pair":   {func(c *Config) { c.TLSCertFile = "x" }, "go together"},
		"no such cert":  {func(c *Config) { c.TLSCertFile, c.TLSKeyFile = "/none/x", "/none/y" }, "--tls-cert-file /none/x"},
		"no such CA":    {func(c *Config) { c.ClientCAFile = "/none/ca" }, "client-ca-file"},
		"mode":          {func(c *Config) { c.AuthorizationModes = []string{"Magic"} }, "Magic"},
		"plug-in":       {func(c *Config) { c.EnableAdmission = []string{"Magic"} }, "Magic"},
		"range":         {func(c *Config) { c.ServiceClusterIPRange = "here" }, "--service-cluster-ip-range"},
		"ports":         {func(c *Config) { c.ServiceNodePortRange = "few" }, "--service-node-port-range"},
		"kubelet CA":    {func(c *Config) { c.KubeletCertificateAuthority = "/none" }, "--kubelet-certificate-authority"},
		"signing key":   {func(c *Config) { c.ServiceAccountSigningKey = "/none" }, "signing-key-file"},
		"verifying key": {func(c *Config) { c.ServiceAccountKeyFiles = []string{"/none"} }, "--service-account-key-file"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			c := Config{Storage: StorageMemory}
			test.change(&c)
			if _, err := New(c); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
		})
	}
}
