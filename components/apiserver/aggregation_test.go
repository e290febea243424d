package apiserver_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	registrations "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"

	"quintet.dev/quintet/components/apiserver/aggregation/aggregationtest"
	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/internal/certs"
)

var thingsOfTheZoo = aggregationtest.GroupVersion.WithResource("things")

// aggregated is a server with an extension server behind it.
type aggregated struct {
	*fixture
	zoo      *aggregationtest.Server
	services registrations.APIServiceInterface
}

func startAggregated(t *testing.T, change ...func(*options.Config)) *aggregated {
	t.Helper()
	authority, err := certs.NewAuthority("front")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Client("front-proxy")
	certFile, keyFile := filepath.Join(t.TempDir(), "proxy.crt"), filepath.Join(t.TempDir(), "proxy.key")
	if err := errors.Join(err, os.WriteFile(certFile, pair.Cert, 0o600),
		os.WriteFile(keyFile, pair.Key, 0o600)); err != nil {
		t.Fatal(err)
	}
	a := &aggregated{zoo: (&aggregationtest.Server{Proxies: authority.Cert}).Start(t)}
	a.fixture = start(t, append(change,
		func(c *options.Config) { c.ProxyClientCert, c.ProxyClientKey = certFile, keyFile })...)
	a.services = registrations.NewForConfigOrDie(a.as("admin")).APIServices()
	return a
}

// register makes the zoo's APIService, and waits until it is available.
func (a *aggregated) register(t *testing.T) {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "zoo"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	if _, err := a.client(t).CoreV1().Services("default").Create(t.Context(), service,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	port, gv := a.zoo.Port(), aggregationtest.GroupVersion
	s := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: 2000, VersionPriority: 15, CABundle: a.zoo.CA(),
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "zoo", Port: &port},
		}}
	if _, err := a.services.Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	a.untilService(t, s.Name, func(s *apiregistrationv1.APIService, err error) bool {
		return err == nil && helper.IsAPIServiceConditionTrue(s, apiregistrationv1.Available)
	})
	a.untilTold(t, "apis/"+gv.String(), true)
}

func (a *aggregated) untilService(t *testing.T, name string, done func(*apiregistrationv1.APIService, error) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			return done(a.services.Get(ctx, name, metav1.GetOptions{})), nil
		})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// untilTold waits until discovery has resources of a group version, or none.
func (a *aggregated) untilTold(t *testing.T, path string, there bool) {
	t.Helper()
	discovery := a.client(t).Discovery()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			_, lists, err := discovery.ServerGroupsAndResources()
			told := slices.ContainsFunc(lists,
				func(l *metav1.APIResourceList) bool {
					return "apis/"+l.GroupVersion == path &&
						len(l.APIResources) > 0
				})
			return err == nil && told == there, nil
		})
	if err != nil {
		t.Fatalf("%s in discovery: %v", path, err)
	}
}

func TestLocalAPIServices(t *testing.T) {
	f := start(t)
	list, err := registrations.NewForConfigOrDie(f.as("admin")).APIServices().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		s := &list.Items[i]
		names = append(names, s.Name)
		if c := helper.GetAPIServiceConditionByType(s, apiregistrationv1.Available); c == nil || c.Status != "True" ||
			c.Reason != "Local" ||
			c.Message != "Local APIServices are always available" ||
			s.Labels["kube-aggregator.kubernetes.io/automanaged"] != "onstart" {
			t.Errorf("%s: %v %+v", s.Name, s.Labels, c)
		}
	}
	for _, want := range []string{"v1.", "v1.apps", "v1.autoscaling", "v2.autoscaling",
		"v1.rbac.authorization.k8s.io"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among %v", want, names)
		}
	}
	groups, err := f.client(t).Discovery().ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, g := range groups.Groups[:6] {
		order = append(order, g.Name)
	}
	if want := []string{"", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io",
		"authorization.k8s.io"}; !slices.Equal(order, want) {
		t.Errorf("groups: %v", order)
	}
}

// TestApplyAPIService applies one as kubectl apply --server-side does, once through each endpoint.
func TestApplyAPIService(t *testing.T) {
	f := start(t)
	services := registrations.NewForConfigOrDie(f.as("admin")).APIServices()
	apply := func(manager, body string, sub ...string) *apiregistrationv1.APIService {
		t.Helper()
		out, err := services.Patch(t.Context(), "v1.zoo.io", types.ApplyPatchType, []byte(body),
			metav1.PatchOptions{FieldManager: manager}, sub...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	const head = `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.zoo.io","labels":`
	s := apply("a",
		head+
			`{"a":"b"}},"spec":{"group":"zoo.io","version":"v1","groupPriorityMinimum":5,"versionPriority":5},"status":{"conditions":[{"type":"Foo","status":"True"}]}}`)
	if len(s.Status.Conditions) != 1 || s.Status.Conditions[0].Reason != "Local" || s.Labels["a"] != "b" {
		t.Errorf("created: %+v", s)
	}
	s = apply("b",
		head+
			`{"c":"d"}},"spec":{"groupPriorityMinimum":6},"status":{"conditions":[{"type":"Foo","status":"True","lastTransitionTime":null}]}}`, "status")
	if len(s.Status.Conditions) != 2 || s.Labels["c"] != "" || s.Spec.GroupPriorityMinimum != 5 {
		t.Errorf("status: %+v", s)
	}
	if n := len(s.ManagedFields); n != 2 || strings.Contains(s.ManagedFields[1].FieldsV1.GetRawString(), "f:labels") {
		t.Errorf("managers: %v", s.ManagedFields)
	}
}

// TestAPIServicesOfCustomResources come and go with their definitions, and come back when they are deleted.
func TestAPIServicesOfCustomResources(t *testing.T) {
	f := startCustom(t)
	a := &aggregated{fixture: f.fixture, services: registrations.NewForConfigOrDie(f.as("admin")).APIServices()}
	there := func(s *apiregistrationv1.APIService, err error) bool {
		return err == nil && s.Labels["kube-aggregator.kubernetes.io/automanaged"] == "true" &&
			s.Spec.GroupPriorityMinimum == 1000 && s.Spec.VersionPriority == 100
	}
	gone := func(_ *apiregistrationv1.APIService, err error) bool { return apierrors.IsNotFound(err) }
	a.untilService(t, "v1.example.com", there)
	a.untilService(t, "v1beta1.example.com", there)

	if err := a.services.Delete(t.Context(), "v1.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	a.untilService(t, "v1.example.com", there)

	_, err := f.definitions.ApiextensionsV1().CustomResourceDefinitions().Patch(t.Context(), "widgets.example.com",
		"application/json-patch+json",
		[]byte(`[{"op":"replace","path":"/spec/versions/1/served","value":false}]`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a.untilService(t, "v1beta1.example.com", gone)
	if err := f.definitions.ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), "widgets.example.com",
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	a.untilService(t, "v1.example.com", gone)
	f.until(t, "widgets.example.com",
		func(_ *apiextensionsv1.CustomResourceDefinition, err error) bool { return apierrors.IsNotFound(err) })
}

func TestAggregatedResources(t *testing.T) {
	a := startAggregated(t)
	a.register(t)
	path := "/apis/" + aggregationtest.GroupVersion.String() + "/namespaces/default/things"
	things := func(token string) error {
		client, err := dynamic.NewForConfig(a.as(token))
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Resource(thingsOfTheZoo).Namespace("default").List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := things("admin"); err != nil {
		t.Error(err)
	}
	in := a.zoo.Requests(path)
	if len(in) != 1 || in[0].Proxy != "front-proxy" || in[0].Header.Get("X-Remote-User") != "admin" ||
		in[0].Header.Get("Authorization") != "" ||
		!slices.Contains(in[0].Header["X-Remote-Group"], "system:masters") || in[0].Header.Get("Audit-Id") == "" {
		t.Errorf("request: %+v", in)
	}
	// This server's authorization comes first.
	if err := things("alice"); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), `User "alice" cannot list resource "things" in API group "zoo.example.com"`) {
		t.Errorf("alice: %v", err)
	}
	a.allow(t, "alice", rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{"zoo.example.com"},
		Resources: []string{"things"}})
	// authorization learns of it by watching
	eventually(t, "alice may, with a role", func() bool { return things("alice") == nil })
	a.zoo.Sicken(http.StatusForbidden)
	if err := things("admin"); !apierrors.IsForbidden(err) {
		t.Errorf("what the extension server says: %v", err)
	}
}

// allow binds a user to a new role.
func (a *aggregated) allow(t *testing.T, who string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	rbac := a.client(t).RbacV1()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "of-" + who}, Rules: rules}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: who}},
	}
	_, err := rbac.ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	if err == nil {
		_, err = rbac.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAggregatedDiscovery(t *testing.T) {
	a := startAggregated(t)
	a.register(t)
	for _, legacy := range []bool{false, true} {
		client := a.client(t).Discovery()
		if legacy {
			client = client.WithLegacy()
		}
		groups, lists, err := client.ServerGroupsAndResources()
		if err != nil {
			t.Fatal(err)
		}
		if last := groups[len(groups)-1]; last.Name != "zoo.example.com" || last.PreferredVersion.Version != "v1" {
			t.Errorf("legacy %v: last group %v", legacy, last)
		}
		var got []string
		for _, l := range lists {
			if l.GroupVersion == aggregationtest.GroupVersion.String() {
				for _, r := range l.APIResources {
					got = append(got, r.Name+" "+r.Kind)
				}
			}
		}
		if want := []string{"things Thing", "things/status Thing"}; !slices.Equal(got, want) {
			t.Errorf("legacy %v: %v", legacy, got)
		}
	}
	paths := &metav1.RootPaths{}
	body, err := a.client(t).Discovery().RESTClient().Get().AbsPath("/").DoRaw(t.Context())
	if err := errors.Join(err, json.Unmarshal(body, paths)); err != nil ||
		!slices.Contains(paths.Paths, "/apis/zoo.example.com/v1") {
		t.Errorf("paths: %v %v", paths.Paths, err)
	}
	if err := a.services.Delete(t.Context(), "v1.zoo.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	a.untilTold(t, "apis/zoo.example.com/v1", false)
	_, err = a.client(t).Discovery().RESTClient().Get().AbsPath("/apis/zoo.example.com/v1/things").DoRaw(t.Context())
	if !apierrors.IsNotFound(err) {
		t.Errorf("of a service that is gone: %v", err)
	}
}

func TestAggregatedOpenAPI(t *testing.T) {
	a := startAggregated(t)
	raw := func(path string) string {
		t.Helper()
		body, err := a.client(t).Discovery().RESTClient().Get().AbsPath(path).SetHeader("Accept",
			"application/json").DoRaw(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return string(body)
	}
	if v2 := raw("/openapi/v2"); strings.Contains(v2, "com.example.zoo") {
		t.Error("v2 tells of what isn't there")
	}
	a.register(t)
	v2 := raw("/openapi/v2")
	for text, want := range map[string]bool{
		"A thing in the zoo.":     true,
		"Not quite upstream's.":   true, // under a name of its own
		"ObjectMeta_v2":           true,
		"/apis/other.example.com": false, // not what the APIService is for
		"io.k8s.api.core.v1.Pod":  true,
		"/apis/zoo.example.com/v1/namespaces/{namespace}/things": true,
	} {
		if strings.Contains(v2, text) != want {
			t.Errorf("v2: %q found: %v", text, !want)
		}
	}
	paths, err := a.client(t).Discovery().OpenAPIV3().Paths()
	if err != nil || paths["apis/zoo.example.com/v1"] == nil || paths["apis/apps/v1"] == nil {
		t.Fatalf("v3: %v, %v", paths, err)
	}
	if version, err := paths["version"].Schema("application/json"); err != nil ||
		!strings.Contains(string(version), `"title":"Kubernetes"`) {
		t.Errorf("the version is told by %s, %v", version, err)
	}
	document, err := paths["apis/zoo.example.com/v1"].Schema("application/json")
	if err != nil || !strings.Contains(string(document), `"title":"zoo"`) {
		t.Errorf("v3: %s, %v", document, err)
	}
}

// TestAggregatedUpgrade carries a connection to the extension server and back.
func TestAggregatedUpgrade(t *testing.T) {
	a := startAggregated(t)
	a.register(t)
	config, err := rest.TLSConfigFor(a.as("admin"))
	if err != nil {
		t.Fatal(err)
	}
	config.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", a.server.Addr().String(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn,
		"GET /apis/zoo.example.com/v1/namespaces/default/things/t/echo HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer "+
			"admin\r\n"+
			"Connection: Upgrade\r\nUpgrade: shouting\r\n\r\n")
	in := bufio.NewReader(conn)
	response, err := http.ReadResponse(in, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", response, err)
	}
	fmt.Fprintln(conn, "moo")
	if line, err := in.ReadString('\n'); line != "MOO\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
}
