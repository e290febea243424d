package addons

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"quintet.dev/quintet/internal/golden"
)

// TestDNSObjects compares what cluster DNS deploys with testdata.
func TestDNSObjects(t *testing.T) {
	for name, o := range map[string]DNSOptions{
		"dns": {Image: "dns:1", Replicas: 2, Domain: "cluster.local", ClusterIPs: []string{"10.96.0.10"}},
		"dns-dual-stack": {Image: "mine:1", Args: []string{"-quiet"}, Replicas: 1, Domain: "cluster.test",
			ClusterIPs: []string{"fd00:96::a", "10.96.0.10"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := DNS(o)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, filepath.Join("testdata", name+".yaml"), manifest(t, objects))
		})
	}
}

// Without an address of its Service, cluster DNS is refused with what to do.
func TestDNSWithoutClusterIPs(t *testing.T) {
	objects, err := DNS(DNSOptions{Image: "dns:1", Replicas: 1, Domain: "cluster.local"})
	if err == nil || objects != nil || !strings.Contains(err.Error(), "give it one of each") {
		t.Errorf("%d objects, error %v", len(objects), err)
	}
}

// manifest is objects as they are written to files.
func manifest(t *testing.T, objects []runtime.Object) string {
	t.Helper()
	var out strings.Builder
	for _, object := range objects {
		kinds, _, err := scheme.Scheme.ObjectKinds(object)
		if err != nil {
			t.Fatal(err)
		}
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		version, kind := kinds[0].ToAPIVersionAndKind()
		fmt.Fprintf(&out, "---\napiVersion: %s\nkind: %s\n%s", version, kind, text)
	}
	return out.String()
}
