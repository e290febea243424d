package apiserver_test

import (
	"slices"
	"strings"
	"testing"
)

// TestHealthNames: monitoring finds the checks by upstream's names, and in its order.
func TestHealthNames(t *testing.T) {
	f := start(t)
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
	ready, live := names("/readyz"), names("/livez")
	if !slices.Equal(ready[:5], []string{"ping", "log", "etcd", "etcd-readiness", "informer-sync"}) || ready[len(ready)-1] != "shutdown" {
		t.Errorf("readyz: %q", ready)
	}
	if !slices.Equal(live[:3], []string{"ping", "log", "etcd"}) || !slices.Equal(live[3:], ready[5:len(ready)-1]) {
		t.Errorf("livez: %q", live)
	}
	order := []string{"crd-informer-synced", "start-system-namespaces-controller", "rbac/bootstrap-roles", "bootstrap-controller",
		"start-kube-aggregator-informers", "apiservice-openapiv3-controller"}
	last := -1
	for _, name := range order {
		at := slices.Index(live, "poststarthook/"+name)
		if at <= last {
			t.Errorf("%s is at %d, after %d", name, at, last)
		}
		last = at
	}
	one, err := f.client(t).Discovery().RESTClient().Get().AbsPath("/readyz/poststarthook/rbac/bootstrap-roles").DoRaw(t.Context())
	if err != nil || string(one) != "ok" {
		t.Errorf("a single check: %s, %v", one, err)
	}
}
