package apiserver_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/options"
)

// upstreamsHooks are of a server that passes requests on to others and to extension servers.
var upstreamsHooks = []string{
	"poststarthook/start-apiserver-admission-initializer",
	"poststarthook/generic-apiserver-start-informers",
	"poststarthook/priority-and-fairness-config-consumer",
	"poststarthook/priority-and-fairness-filter",
	"poststarthook/storage-object-count-tracker-hook",
	"poststarthook/start-apiextensions-informers",
	"poststarthook/start-apiextensions-controllers",
	"poststarthook/crd-informer-synced",
	"poststarthook/start-system-namespaces-controller",
	"poststarthook/peer-endpoint-reconciler-controller",
	"poststarthook/mixed-version-proxy-handler",
	"poststarthook/local-discovery-cache-sync",
	"poststarthook/peer-discovery-workers",
	"poststarthook/start-cluster-authentication-info-controller",
	"poststarthook/start-kube-apiserver-identity-lease-controller",
	"poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
	"poststarthook/storage-readiness",
	"poststarthook/start-legacy-token-tracking-controller",
	"poststarthook/start-service-ip-repair-controllers",
	"poststarthook/rbac/bootstrap-roles",
	"poststarthook/scheduling/bootstrap-system-priority-classes",
	"poststarthook/priority-and-fairness-config-producer",
	"poststarthook/bootstrap-controller",
	"poststarthook/start-kubernetes-service-cidr-controller",
	"poststarthook/aggregator-reload-proxy-client-cert",
	"poststarthook/start-kube-aggregator-informers",
	"poststarthook/apiservice-status-local-available-controller",
	"poststarthook/apiservice-status-remote-available-controller",
	"poststarthook/apiservice-registration-controller",
	"poststarthook/apiservice-discovery-controller",
	"poststarthook/kube-apiserver-autoregistration",
	"autoregister-completion",
	"poststarthook/apiservice-openapi-controller",
	"poststarthook/apiservice-openapiv3-controller",
}

// TestHealthNames: monitoring finds the checks by upstream's names, and in its order.
func TestHealthNames(t *testing.T) {
	f := start(t, inOneCluster(t), func(c *options.Config) {
		c.PriorityAndFairness, c.MaxRequestsInFlight, c.MaxMutatingRequestsInFlight = true, 400, 200
	})
	names := func(path string) []string {
		t.Helper()
		body, err := f.client(t).Discovery().RESTClient().Get().AbsPath(path).Param("verbose", "").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for line := range strings.Lines(string(body)) {
			if name, ok := strings.CutPrefix(line, "[+]"); ok {
				out = append(out, strings.TrimSuffix(strings.TrimSpace(name), " ok"))
			}
		}
		return out
	}
	live := append([]string{"ping", "log", "loopback-serving-certificate", "etcd"}, upstreamsHooks...)
	ready := slices.Concat([]string{"ping", "log", "etcd", "etcd-readiness", "informer-sync"}, upstreamsHooks,
		[]string{"shutdown"})
	for path, want := range map[string][]string{"/livez": live, "/healthz": live, "/readyz": ready} {
		if got := names(path); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	one, err := f.client(t).Discovery().RESTClient().Get().AbsPath("/readyz/poststarthook/rbac/bootstrap-roles").DoRaw(
		t.Context())
	if err != nil || string(one) != "ok" {
		t.Errorf("a single check: %s, %v", one, err)
	}
}

// TestHealthNamesOfLess: what a server does without isn't told of.
func TestHealthNamesOfLess(t *testing.T) {
	f := start(t, gated(map[string]bool{"APIServerIdentity": false, "UnknownVersionInteroperabilityProxy": false}),
		func(c *options.Config) {
			c.AuthorizationModes = []string{"AlwaysAllow"}
		})
	body, err := f.client(t).Discovery().RESTClient().Get().AbsPath("/livez").Param("verbose", "").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"peer", "mixed-version", "identity-lease", "reload-proxy-client-cert",
		"fairness-config-consumer", "fairness-filter", "bootstrap-roles", "encryption"} {
		if strings.Contains(string(body), name) {
			t.Errorf("%s is there: %s", name, body)
		}
	}
	for _, name := range []string{"poststarthook/max-in-flight-filter",
		"poststarthook/priority-and-fairness-config-producer"} {
		if !strings.Contains(string(body), name) {
			t.Errorf("%s isn't there: %s", name, body)
		}
	}
}

// TestFirstObjectsOfLess: roles are written where RBAC is on, flow schemas and priority levels by every server.
func TestFirstObjectsOfLess(t *testing.T) {
	client := start(t, func(c *options.Config) { c.AuthorizationModes = []string{"AlwaysAllow"} }).client(t)
	roles, err := client.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(roles.Items) > 0 {
		t.Errorf("%d roles, %v", len(roles.Items), err)
	}
	if bindings, err := client.RbacV1().RoleBindings("").List(t.Context(), metav1.ListOptions{}); err != nil ||
		len(bindings.Items) > 0 {
		t.Errorf("%d bindings, %v", len(bindings.Items), err)
	}
	if schemas, err := client.FlowcontrolV1().FlowSchemas().List(t.Context(), metav1.ListOptions{}); err != nil ||
		len(schemas.Items) == 0 {
		t.Errorf("%d flow schemas, %v", len(schemas.Items), err)
	}
}
