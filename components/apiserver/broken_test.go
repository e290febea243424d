package apiserver_test

import (
	"context"
	"net"
	"path"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/components/apiserver"
	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// TestUnreadableAtStart: a server that needs an unreadable object is not ready, and becomes ready when that is
// repaired.
func TestUnreadableAtStart(t *testing.T) {
	for _, resource := range []string{"clusterroles", "apiextensions.k8s.io/customresourcedefinitions",
		"apiregistration.k8s.io/apiservices"} {
		t.Run(path.Base(resource), func(t *testing.T) { startBeside(t, "/registry/"+resource+"/bad") })
	}
}

// runOn runs a server on a store, and doesn't wait until it is ready. Who takes from done puts back what stop is to
// find there.
func runOn(t *testing.T, store *memory.Store) (server *apiserver.Server, done chan error, stop func()) {
	t.Helper()
	server, err := apiserver.New(
		options.Config{Store: store, BindAddress: net.IPv4(127, 0, 0, 1), AuthorizationModes: []string{"RBAC"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done = make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	return server, done, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func startBeside(t *testing.T, key string) {
	store := memory.New(nil)
	defer store.Close()
	at, err := store.Create(t.Context(), key, []byte("nonsense"), 0)
	if err != nil {
		t.Fatal(err)
	}
	server, done, stop := runOn(t, store)
	defer stop()
	select {
	case <-server.Ready():
		t.Fatal("ready without what can't be read")
	case err := <-done:
		done <- nil
		t.Fatalf("ended: %v", err)
	case <-time.After(100 * time.Millisecond): // the other end of the test: it never gets ready by itself
	}
	if _, err := store.Delete(t.Context(), key, at); err != nil {
		t.Fatal(err)
	}
	select {
	case <-server.Ready():
	case <-time.After(time.Minute):
		t.Error("it doesn't get ready")
	}
}

// TestUnreadableDefinitionAtStart: a server that isn't ready for want of it serves what else there is, and takes no
// APIService away.
func TestUnreadableDefinitionAtStart(t *testing.T) {
	store := memory.New(nil)
	defer store.Close()
	const bad = "/registry/apiextensions.k8s.io/customresourcedefinitions/bad"
	at, err := store.Create(t.Context(), bad, []byte("nonsense"), 0)
	if err != nil {
		t.Fatal(err)
	}
	const stale = `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.stale.example.com","uid":"u","labels":{
		"kube-aggregator.kubernetes.io/automanaged":"true"}},"spec":{"group":"stale.example.com","version":"v1","groupPriorityMinimum":100,"versionPriority":10}}`
	if _, err := store.Create(t.Context(), "/registry/apiregistration.k8s.io/apiservices/v1.stale.example.com",
		[]byte(stale), 0); err != nil {
		t.Fatal(err)
	}
	server, _, stop := runOn(t, store)
	defer stop()
	client, err := kubernetes.NewForConfig(server.Client())
	if err != nil {
		t.Fatal(err)
	}
	there := func(path string) bool {
		_, err := client.RESTClient().Get().AbsPath(path).DoRaw(t.Context())
		return err == nil
	}
	const service = "/apis/apiregistration.k8s.io/v1/apiservices/v1.stale.example.com"
	for _, path := range []string{"/api/v1/namespaces/kube-node-lease",
		"/apis/rbac.authorization.k8s.io/v1/clusterroles/view", service} {
		eventually(t, path, func() bool { return there(path) })
	}
	if _, err := store.Delete(t.Context(), bad, at); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ready", func() bool { return there("/readyz") })
	if there(service) {
		t.Error("the APIService of what nobody defines is still there")
	}
}

// TestUnreadableDefinition: a resource that is served stays so while its definition can't be read.
func TestUnreadableDefinition(t *testing.T) {
	store := memory.New(nil)
	t.Cleanup(func() { _ = store.Close() })
	f := startDynamic(t, func(c *options.Config) { c.Store = store })
	f.define(t, widgetDefinition(t))
	const key = "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com"
	kv, err := store.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	at, err := store.Update(t.Context(), key, []byte("nonsense"), kv.Revision, 0)
	if err != nil {
		t.Fatal(err)
	}
	list := func() error {
		_, err := f.dynamic.Resource(widgets).Namespace("default").List(t.Context(), metav1.ListOptions{})
		return err
	}
	eventually(t, "the definition can't be read", func() bool {
		_, err := f.definitions.ApiextensionsV1().CustomResourceDefinitions().List(t.Context(), metav1.ListOptions{})
		return undecodable(err)
	})
	for range 50 { // what is taken away is so a moment later
		if err := list(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if _, err := store.Delete(t.Context(), key, at); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what isn't defined any more isn't served", func() bool { return apierrors.IsNotFound(list()) })
}

// TestUnreadableAPIService: who serves a group goes on to be asked while the APIService that says so can't be read.
func TestUnreadableAPIService(t *testing.T) {
	store := memory.New(nil)
	t.Cleanup(func() { _ = store.Close() })
	f := start(t, withoutServiceAccounts, func(c *options.Config) { c.Store = store })
	const services = "/apis/apiregistration.k8s.io/v1/apiservices"
	const body = `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.far.example.com"},"spec":{"group":"far.example.com",
		"version":"v1","groupPriorityMinimum":100,"versionPriority":10,"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"far"}}}`
	if code, message, _ := f.raw(t, "POST", services, "application/json", body); code != 201 {
		t.Fatalf("%d %s", code, message)
	}
	asked := func() int { code, _, _ := f.raw(t, "GET", "/apis/far.example.com/v1/things", "", ""); return code }
	eventually(t, "the group is another's", func() bool { return asked() == 503 })
	const key = "/registry/apiregistration.k8s.io/apiservices/v1.far.example.com"
	var at int64
	eventually(t, "it is made unreadable", func() bool { // its status may be written meanwhile
		kv, err := store.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		at, err = store.Update(t.Context(), key, []byte("nonsense"), kv.Revision, 0)
		return err == nil
	})
	eventually(t, "that is seen", func() bool { code, _, _ := f.raw(t, "GET", services, "", ""); return code == 500 })
	for range 50 { // what is taken away is so a moment later
		if code := asked(); code != 503 {
			t.Fatalf("%d", code)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if _, err := store.Delete(t.Context(), key, at); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nobody serves it any more", func() bool { return asked() == 404 })
}

// TestUnreadableObject fails the reads that would show it, and no other; it ends nothing.
func TestUnreadableObject(t *testing.T) {
	store := memory.New(nil)
	t.Cleanup(func() { _ = store.Close() })
	if _, err := store.Create(t.Context(), "/registry/configmaps/default/bad", []byte("nonsense"), 0); err != nil {
		t.Fatal(err)
	}
	client := start(t, withoutServiceAccounts, func(c *options.Config) { c.Store = store }).client(t).CoreV1()
	if _, err := client.ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); !undecodable(err) {
		t.Errorf("list: %v", err)
	}
	if _, err := client.ConfigMaps("default").Get(t.Context(), "bad", metav1.GetOptions{}); !undecodable(err) {
		t.Errorf("get: %v", err)
	}
	if err := client.ConfigMaps("default").Delete(t.Context(), "bad", metav1.DeleteOptions{}); !undecodable(err) {
		t.Errorf("delete: %v", err)
	}
	if _, err := client.ConfigMaps("other").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("list beside it: %v", err)
	}
	if _, err := client.Secrets("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("list of others: %v", err)
	}
}

// TestUnreadableWebhook: requests are rejected while the rules of a webhook can't be read.
func TestUnreadableWebhook(t *testing.T) {
	for _, resource := range []string{"validatingwebhookconfigurations", "mutatingwebhookconfigurations",
		"validatingadmissionpolicybindings"} {
		t.Run(resource, func(t *testing.T) {
			store := memory.New(nil)
			t.Cleanup(func() { _ = store.Close() })
			at, err := store.Create(t.Context(), "/registry/"+resource+"/bad", []byte("nonsense"), 0)
			if err != nil {
				t.Fatal(err)
			}
			client := start(t, withoutServiceAccounts,
				func(c *options.Config) { c.Store = store }).client(t).CoreV1().ConfigMaps("default")
			_, err = client.Create(t.Context(), configMapFor("one"), metav1.CreateOptions{})
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "not yet ready to handle request") {
				t.Errorf("created: %v", err)
			}
			if _, err := store.Delete(t.Context(), "/registry/"+resource+"/bad", at); err != nil {
				t.Fatal(err)
			}
			eventually(t, "a write is let in", func() bool {
				_, err := client.Create(t.Context(), configMapFor("one"), metav1.CreateOptions{})
				return err == nil
			})
		})
	}
}

// undecodable tells whether a read failed with the text of the decoder, as upstream's do.
func undecodable(err error) bool {
	const told = "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct"
	return err != nil && strings.HasPrefix(err.Error(), told) &&
		apierrors.ReasonForError(err) == metav1.StatusReasonUnknown
}
