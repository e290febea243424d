package apiserver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/etcd"
	"quintet.dev/quintet/components/apiserver/storage/etcdtest"
	"quintet.dev/quintet/internal/certs"
)

func keysIn(t *testing.T, endpoint string) map[string]bool {
	t.Helper()
	s, err := etcd.New(etcd.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	page, err := s.List(t.Context(), storage.Range{Prefix: "/registry/"})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, kv := range page.Items {
		first, _, _ := strings.Cut(strings.TrimPrefix(kv.Key, "/registry/"), "/")
		out[first] = true
	}
	return out
}

// withSigningKey is for servers whose store outlives them.
func withSigningKey(t *testing.T) func(*options.Config) {
	t.Helper()
	pair, err := certs.SigningKey()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sa.key")
	if err := os.WriteFile(file, pair.Key, 0o600); err != nil {
		t.Fatal(err)
	}
	return func(c *options.Config) { c.ServiceAccountSigningKey = file }
}

// TestOverrides keeps some resources in another etcd: they are read, watched and written as the others are, and health
// tells of both.
func TestOverrides(t *testing.T) {
	first := etcdtest.Start(t)
	second := etcdtest.Start(t)
	way := newRelay(t, strings.TrimPrefix(second, "http://"))
	by := "http://" + way.listener.Addr().String()
	f := start(t, withSigningKey(t), func(c *options.Config) {
		c.Storage, c.EtcdServers, c.EtcdHealthTimeout = options.StorageEtcd, []string{first}, time.Second
		c.EtcdServersOverrides = []string{"/events#" + by, "/secrets#" + by}
	})
	client := f.client(t)
	create(t, client, configMap("a", nil))
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "default"},
		InvolvedObject: corev1.ObjectReference{Namespace: "default"}}
	made, err := client.CoreV1().Events("default").Create(t.Context(), event, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secrets := client.CoreV1().Secrets("default")
	secret, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := secrets.Watch(t.Context(), metav1.ListOptions{ResourceVersion: secret.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	secret.Labels = map[string]string{"a": "b"}
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if e := <-w.ResultChan(); e.Object.(*corev1.Secret).Labels["a"] != "b" {
		t.Errorf("watched %v", e)
	}
	got, err := client.EventsV1().Events("default").Get(t.Context(), "e", metav1.GetOptions{})
	if err != nil || got.UID != made.UID {
		t.Errorf("the other group of events: %v, %v", got, err)
	}
	for endpoint, want := range map[string]map[string]bool{
		first:  {"configmaps": true, "events": false, "secrets": false, "namespaces": true},
		second: {"configmaps": false, "events": true, "secrets": true, "namespaces": false},
	} {
		keys := keysIn(t, endpoint)
		for resource, there := range want {
			if keys[resource] != there {
				t.Errorf("%s: %s: want %v, got %v", endpoint, resource, there, keys)
			}
		}
	}
	ready := func() string {
		body, _ := client.Discovery().RESTClient().Get().AbsPath("/readyz").Param("verbose", "").DoRaw(t.Context())
		return string(body)
	}
	eventually(t, "both are healthy", func() bool { // which each tells in time, or when it is asked again
		report := ready()
		return strings.Contains(report, "[+]etcd-override-0 ok\n") &&
			strings.Contains(report, "[+]etcd-override-readiness-0 ok\n")
	})
	way.cut()
	eventually(t, "one is healthy without the other", func() bool {
		report := ready()
		return strings.Contains(report, "[+]etcd ok\n") && strings.Contains(report, "[-]etcd-override-0 failed")
	})
	if _, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Errorf("without the other etcd: %v", err)
	}
}
