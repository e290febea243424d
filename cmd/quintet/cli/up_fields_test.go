package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestFieldsOfFlags: each flag of up is a field that docs/config.md shows, or the page and the help tell of it as one
// that has none.
func TestFieldsOfFlags(t *testing.T) {
	content, err := os.ReadFile("../../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(string(content), "# ", "")
	fields := map[string]string{
		"api-servers": "apiServers", "args": "args", "config": "apiVersion", "controller-managers": "controllerManagers",
		"crds": "crds", "etcd-disk": "etcdDisk", "etcd-members": "etcdMembers", "faults": "faults", "image": "image",
		"in-process": "inProcess", "insecure-registry": "insecureRegistries", "ip-family": "ipFamily",
		"kubeconfig-merge": "merge", "manifest": "manifests", "node-cpus": "cpus", "node-disk": "disk",
		"node-memory": "memory", "nodes": "nodes", "overcommit": "overcommit", "program": "program", "publish": "publish",
		"registry-mirror": "registryMirrors", "registry-user": "registryUser", "runtime": "runtime",
		"schedulers": "schedulers", "shutdown-grace-period": "shutdownGracePeriod",
		"shutdown-grace-period-critical-pods": "shutdownGracePeriodCriticalPods", "store": "store",
		"wait": "waitForManifests", "with": "with", "without": "without",
	}
	up := (&app{}).up()
	up.Flags().VisitAll(func(flag *pflag.Flag) {
		field, has := fields[flag.Name]
		switch {
		case has && !strings.Contains(page, field+":"):
			t.Errorf("--%s: docs/config.md has no field %s", flag.Name, field)
		case !has && (!strings.Contains(page, "`--"+flag.Name+"`") || !strings.Contains(up.Long, "--"+flag.Name)):
			t.Errorf("--%s has no field, of which docs/config.md and --help tell nothing", flag.Name)
		}
	})
}
