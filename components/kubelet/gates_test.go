package kubelet

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestFeatureGates: flags win over the file gate by gate, and a gate that has no switch is named.
func TestFeatureGates(t *testing.T) {
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	file := filepath.Join(t.TempDir(), "config.yaml")
	for name, test := range map[string]struct {
		file  string
		flags []string
		want  map[string]bool
		fails string
	}{
		"none":     {"", nil, nil, ""},
		"the file": {"featureGates: {PodCertificateRequest: true}", nil, map[string]bool{podCertificates: true}, ""},
		"the flag": {"", []string{"--feature-gates=ContainerStopSignals=true"}, map[string]bool{stopSignals: true}, ""},
		"both": {"featureGates: {ClusterTrustBundleProjection: true, ContainerStopSignals: true}",
			[]string{"--feature-gates=ContainerStopSignals=false"},
			map[string]bool{trustBundles: true, stopSignals: false}, ""},
		"not known": {"featureGates: {Unheard: true}", nil, map[string]bool{"Unheard": true},
			"--feature-gates: Unheard can't be set; only"},
	} {
		if err := os.WriteFile(file, []byte(head+test.file), 0o600); err != nil {
			t.Fatal(err)
		}
		c := NewConfig()
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		c.AddFlags(fs)
		if err := fs.Parse(append(test.flags, "--config="+file)); err != nil {
			t.Fatal(err)
		}
		if err := c.ReadFile(); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(c.FeatureGates, test.want) || !maps.Equal(c.shown().FeatureGates, test.want) {
			t.Errorf("%s: %v", name, c.FeatureGates)
		}
		if err := c.validateGates(); (err == nil) != (test.fails == "") ||
			err != nil && !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
