package apiserver_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/storage/memory"
	"quintet.dev/quintet/internal/certs"
)

// inOneCluster is what servers of one cluster have in common.
func inOneCluster(t *testing.T) func(*options.Config) {
	t.Helper()
	authority, err := certs.NewAuthority("front")
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := authority.Client("front-proxy")
	serving, err2 := authority.Serving("apiserver", "kubernetes.default.svc", "127.0.0.1")
	dir, key := t.TempDir(), keyFile(t)
	errs := errors.Join(err, err2)
	file := func(name string, content []byte) string {
		name = filepath.Join(dir, name)
		errs = errors.Join(errs, os.WriteFile(name, content, 0o600))
		return name
	}
	ca, proxyCert, proxyKey := file("ca.crt", authority.Cert), file("proxy.crt", proxy.Cert),
		file("proxy.key", proxy.Key)
	servingCert, servingKey := file("serving.crt", serving.Cert), file("serving.key", serving.Key)
	if errs != nil {
		t.Fatal(errs)
	}
	store := memory.New(clock.RealClock{})
	t.Cleanup(func() { _ = store.Close() })
	return func(c *options.Config) {
		c.Store = store
		c.ServiceAccountSigningKey, c.ServiceAccountKeyFiles = key, []string{key}
		c.ProxyClientCert, c.ProxyClientKey, c.TLSCertFile, c.TLSKeyFile = proxyCert, proxyKey, servingCert, servingKey
		c.Peers.CAFile, c.RequestHeader.ClientCAFile = ca, ca
		c.RequestHeader.UsernameHeaders, c.RequestHeader.GroupHeaders = []string{"X-Remote-User"},
			[]string{"X-Remote-Group"}
		c.Peers.AdvertiseIP = "localhost"
	}
}

// TestPeers: a server that lacks a group version passes requests for it on to one that has it, and tells of it.
func TestPeers(t *testing.T) {
	cluster := inOneCluster(t)
	older := start(t, cluster, func(c *options.Config) { c.Identity = "older" })
	newer := start(t, cluster, func(c *options.Config) {
		c.Identity, c.FeatureGates = "newer", map[string]bool{"StorageVersionMigrator": true}
		c.RuntimeConfig = map[string]string{"storagemigration.k8s.io/v1beta1": "true"}
	})
	const group = "storagemigration.k8s.io"
	config := older.as("admin")
	tells := func(alone bool) bool {
		d := discovery.NewDiscoveryClientForConfigOrDie(config)
		d.NoPeerDiscovery = alone
		groups, err := d.ServerGroups()
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range groups.Groups {
			if g.Name == group {
				return true
			}
		}
		return false
	}
	eventually(t, "the older server tells of what the newer has", func() bool { return tells(false) })
	if tells(true) {
		t.Error("the older server tells of the group as its own")
	}
	for _, name := range []string{"nopeer_requests_total", "peer_aggregated_cache_misses_total",
		"peer_aggregated_cache_hits_total"} {
		tells(false) // once more is from what was put together
		if text := metricsOf(t, older); strings.Contains(text, "aggregator_discovery_"+name+" 0\n") ||
			!strings.Contains(text, "aggregator_discovery_"+name) {
			t.Errorf("%s doesn't count", name)
		}
	}
	migrations := kubernetes.NewForConfigOrDie(config).StoragemigrationV1beta1().StorageVersionMigrations()
	m := &migrationv1beta1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
	m.Spec.Resource.Resource = "secrets"
	if _, err := migrations.Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w, err := migrations.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if e := <-w.ResultChan(); e.Type != "ADDED" {
		t.Errorf("watched %v", e)
	}
	w.Stop()
	if _, err := kubernetes.NewForConfigOrDie(
		older.as("alice")).StoragemigrationV1beta1().StorageVersionMigrations().List(t.Context(),
		metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("as one who may not: %v", err)
	}
	const counted = `apiserver_rerouted_request_total{code="201",group="storagemigration.k8s.io",resource="storageversionmigrations",version="v1beta1"} 1`
	if text := metricsOf(t, older); !strings.Contains(text, counted) {
		t.Errorf("metrics lack %s", counted)
	}
	newer.stop()
	// its Lease ends with it, which the older may not have seen yet
	eventually(t, "nobody has it any more", func() bool {
		_, err := migrations.List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsServiceUnavailable(err) && !apierrors.IsNotFound(err) {
			t.Fatalf("with the other server gone: %v", err)
		}
		return apierrors.IsNotFound(err)
	})
}

// TestPeersUnreachable: the address of a server that doesn't answer, and requests that were passed on before.
func TestPeersUnreachable(t *testing.T) {
	cluster := inOneCluster(t)
	older := start(t, cluster, func(c *options.Config) { c.Identity = "older" })
	start(t, cluster, func(c *options.Config) {
		c.Identity, c.FeatureGates = "newer", map[string]bool{"StorageVersionMigrator": true}
		c.RuntimeConfig = map[string]string{"storagemigration.k8s.io/v1beta1": "true"}
		c.Peers.AdvertisePort = "1" // refuses connections
	})
	eventually(t, "the older server has asked the newer in vain", func() bool {
		return strings.Contains(metricsOf(t, older),
			`apiserver_peer_discovery_sync_errors_total{type="fetch_discovery"}`)
	})
	migrations := kubernetes.NewForConfigOrDie(older.as("admin")).StoragemigrationV1beta1().StorageVersionMigrations()
	if _, err := migrations.List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what nobody told of: %v", err)
	}
}

func metricsOf(t *testing.T, f *fixture) string {
	t.Helper()
	text, err := f.client(t).CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
