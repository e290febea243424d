package apiserver_test

import (
	"net"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// TestDirectReads: where reads are as new as the store, limits count at any version, and what the store doesn't have
// isn't waited for.
func TestDirectReads(t *testing.T) {
	f := start(t, func(c *options.Config) { c.WatchCacheSizes = []string{"configmaps#0", "secrets#5"} })
	client := f.client(t).CoreV1()
	for _, name := range []string{"a", "b"} {
		if _, err := client.ConfigMaps("default").Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	l, err := client.ConfigMaps("default").List(t.Context(), metav1.ListOptions{ResourceVersion: "0", Limit: 1})
	if err != nil || len(l.Items) != 1 || l.Continue == "" {
		t.Errorf("any version, limited: %+v, %v", l, err)
	}
	const never = "?resourceVersion=9000000000000000000"
	tells := func(f *fixture, resource string, again bool) {
		t.Helper()
		resp, text := f.with(t, "GET", "/api/v1/namespaces/default/"+resource+never, "")
		if resp.StatusCode != 504 || !strings.Contains(text, "ResourceVersionTooLarge") ||
			strings.Contains(text, "retryAfterSeconds") != again {
			t.Errorf("%s: %d %s", resource, resp.StatusCode, text)
		}
	}
	tells(f, "configmaps", false)
	tells(f, "secrets", true)
	tells(start(t, func(c *options.Config) { c.NoWatchCache = true }), "secrets", false)
}

// TestCountedServers: with a number of servers, each writes itself down and goes again.
func TestCountedServers(t *testing.T) {
	store := memory.New(clock.RealClock{})
	t.Cleanup(func() { _ = store.Close() })
	key := keyFile(t)
	counted := func(last byte) func(*options.Config) {
		return func(c *options.Config) {
			c.Store, c.EndpointReconciler, c.Servers = store, options.EndpointsByCount, 2
			c.AdvertiseAddress, c.Identity = net.IPv4(10, 0, 0, last), string(rune('a'+last))
			c.ServiceAccountSigningKey, c.ServiceAccountKeyFiles = key, []string{key}
		}
	}
	first, second := start(t, counted(1)), start(t, counted(2))
	addresses := func() string {
		e, err := first.client(t).CoreV1().Endpoints("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		var out []string
		for _, s := range e.Subsets {
			for _, a := range s.Addresses {
				out = append(out, a.IP)
			}
		}
		return strings.Join(out, " ")
	}
	eventually(t, "both are endpoints", func() bool { return addresses() == "10.0.0.1 10.0.0.2" })
	second.stop()
	if got := addresses(); got != "10.0.0.1" {
		t.Errorf("one: %s", got)
	}
}

func TestMinCompatibility(t *testing.T) {
	f := start(t, func(c *options.Config) { c.MinCompatibility = "1.34" })
	v, err := f.client(t).Discovery().ServerVersion()
	if err != nil || v.MinCompatibilityMajor != "1" || v.MinCompatibilityMinor != "34" || v.EmulationMinor != v.Minor {
		t.Errorf("%+v, %v", v, err)
	}
	if text := metricsOf(t, f); !strings.Contains(text, `min_compat="1.34"`) {
		t.Error("metrics tell of another release")
	}
}

// TestEventsAreReadDirectly unless their cache is given a size.
func TestEventsAreReadDirectly(t *testing.T) {
	for sizes, want := range map[string]int{"": 1, "pods#0": 1, "events#7": 2} {
		f := start(t, func(c *options.Config) { c.WatchCacheSizes = strings.Fields(sizes) })
		events := f.client(t).CoreV1().Events("default")
		for _, name := range []string{"a", "b"} {
			e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: name},
				InvolvedObject: corev1.ObjectReference{Namespace: "default"}}
			if _, err := events.Create(t.Context(), e, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := events.List(t.Context(), metav1.ListOptions{}); err != nil { // so that a cache has both
			t.Fatal(err)
		}
		l, err := events.List(t.Context(), metav1.ListOptions{ResourceVersion: "0", Limit: 1})
		if err != nil || len(l.Items) != want || (l.Continue != "") != (want == 1) {
			t.Errorf("sizes %q: %d events, %v", sizes, len(l.Items), err)
		}
	}
}
