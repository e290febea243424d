package apiserver_test

import (
	"encoding/json"
	"net"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"quintet.dev/quintet/components/apiserver/options"
)

// TestCommandLine: /flagz shows the values that the server determined itself where no flag sets them, and leaves empty
// what upstream does.
func TestCommandLine(t *testing.T) {
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		args []string
		want map[string]string
	}{
		"nothing said": {nil, map[string]string{
			"advertise-address": "192.0.2.7", "external-hostname": "192.0.2.7", "peer-advertise-ip": "",
			"storage-backend": "", "emulated-version": "[]", "min-compatibility-version": "[]",
			"tls-cert-file":        filepath.Join(dir, "apiserver.crt"),
			"tls-private-key-file": filepath.Join(dir, "apiserver.key"),
			"watch-cache-sizes":    "[events#0,events.events.k8s.io#0,pods#5]",
		}},
		"said": {
			[]string{"--external-hostname=example.org", "--storage-backend=etcd3", "--emulated-version=kube=1.36",
				"--min-compatibility-version=kube=1.35", "--tls-cert-file=/c"},
			map[string]string{
				"external-hostname": "example.org", "storage-backend": "etcd3", "emulated-version": "[kube=1.36]",
				"min-compatibility-version": "[kube=1.35]", "tls-cert-file": "/c",
			},
		},
	} {
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		said := &options.Config{}
		said.AddFlags(fs)
		if err := fs.Parse(tt.args); err != nil {
			t.Fatal(err)
		}
		f := start(t, func(c *options.Config) {
			c.CommandLine, c.CertDir, c.AdvertiseAddress, c.WatchCacheSizes = said.CommandLine, dir,
				net.IPv4(192, 0, 2, 7), []string{"pods#5"}
		})
		_, text := f.with(t, "GET", "/flagz", "", "Accept", "application/json;as=Flagz;v=v1beta1;g=config.k8s.io")
		var page struct{ Flags map[string]string }
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			t.Fatal(err)
		}
		for flag, want := range tt.want {
			if got := page.Flags[flag]; got != want {
				t.Errorf("%s: --%s is %q, want %q", name, flag, got, want)
			}
		}
	}
}
