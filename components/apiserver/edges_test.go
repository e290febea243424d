package apiserver_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/components/apiserver/options"
)

// TestFaultsInOrder tells of the first of several faults that upstream looks for.
func TestFaultsInOrder(t *testing.T) {
	f := start(t)
	const maps, body = "/api/v1/namespaces/default/configmaps",
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}`
	for _, c := range []struct {
		name, method, path, media, body string
		code                            int
	}{
		{"a POST's form before its options", "POST", maps + "?fieldValidation=bogus", "text/plain", body, 415},
		{"a PUT's options before its form", "PUT", maps + "/a?fieldValidation=bogus", "text/plain", body, 422},
		{"a PUT's size before its options", "PUT", maps + "/a?fieldValidation=bogus", "application/json",
			strings.Repeat("x", 4<<20), 413},
		{"a PATCH's size before its options", "PATCH", maps + "/a?fieldValidation=bogus",
			"application/merge-patch+json", strings.Repeat("x", 4<<20), 413},
		{"a PATCH's form with a space", "PATCH", maps + "/a", "application/merge-patch+json ; charset=utf-8", "{}",
			415},
		{"a list's options before its fields", "GET", maps + "?fieldSelector=foo%3Dbar&resourceVersionMatch=Exact", "",
			"", 422},
		{"an eviction's form before its options", "POST",
			"/api/v1/namespaces/default/pods/p/eviction?fieldValidation=bogus", "text/plain", "{}", 415},
		{"a scale's options before its form", "PUT",
			"/apis/apps/v1/namespaces/default/deployments/d/scale?fieldValidation=bogus", "text/plain", "{}", 422},
		{"what a deletion chooses, as a watch", "DELETE",
			maps + "?watch=true&resourceVersion=5&resourceVersionMatch=Exact", "", "", 422},
		{"what is watched by its path, as a list", "GET",
			"/api/v1/watch/namespaces/default/configmaps?sendInitialEvents=true&resourceVersionMatch=NotOlderThan", "",
			"", 422},
	} {
		if code, answer, _ := f.raw(t, c.method, c.path, c.media, c.body); code != c.code {
			t.Errorf("%s: %d %.200s", c.name, code, answer)
		}
	}
}

// TestBodyThatBreaksOff: a body that breaks off gets no error of its own reason.
func TestBodyThatBreaksOff(t *testing.T) {
	f := start(t)
	conn, err := tls.Dial("tcp", f.server.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin\r\n"+
		"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var status metav1.Status
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil || resp.StatusCode != 500 || status.Reason != "" ||
		!strings.Contains(status.Message, "invalid byte in chunk length") {
		t.Errorf("%d %+v, %v", resp.StatusCode, status, err)
	}
}

// TestWatchByPath without watch=true begins with no state of its own, and ends it with no bookmark.
func TestWatchByPath(t *testing.T) {
	f := start(t)
	client, err := rest.HTTPClientFor(f.as("admin"))
	if err != nil {
		t.Fatal(err)
	}
	create(t, f.client(t), configMap("a", nil))
	// until reads a watch as far as the first event that has a mark.
	until := func(query, mark string) (seen string) {
		resp, err := client.Get("https://" + f.server.Addr().String() +
			"/api/v1/watch/namespaces/default/configmaps?allowWatchBookmarks=true&" + query)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		for !strings.Contains(seen, mark) && lines.Scan() {
			seen += lines.Text()
		}
		return seen
	}
	if seen := until("timeoutSeconds=60&watch=true", metav1.InitialEventsAnnotationKey); !strings.Contains(seen,
		`"name":"a"`) || !strings.Contains(seen, metav1.InitialEventsAnnotationKey) {
		t.Errorf("asked to watch: %s", seen)
	}
	if seen := until("timeoutSeconds=1", metav1.InitialEventsAnnotationKey); strings.Contains(seen,
		metav1.InitialEventsAnnotationKey) {
		t.Errorf("asked by the path: %s", seen)
	}
}

// TestPageThatIsTheLastOfItsKind: whether an object behind a page matches, too, isn't evaluated.
func TestPageThatIsTheLastOfItsKind(t *testing.T) {
	client := start(t).client(t)
	for _, name := range []string{"a", "b", "c"} {
		m := configMap(name, nil)
		if name != "c" {
			m.Labels = map[string]string{"x": "1"}
		}
		create(t, client, m)
	}
	list := func(o metav1.ListOptions) *corev1.ConfigMapList {
		t.Helper()
		l, err := client.CoreV1().ConfigMaps("default").List(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	page := list(metav1.ListOptions{LabelSelector: "x=1", Limit: 2})
	if len(page.Items) != 2 || page.Continue == "" || page.RemainingItemCount != nil {
		t.Fatalf("%d items, %+v", len(page.Items), page.ListMeta)
	}
	if rest := list(metav1.ListOptions{LabelSelector: "x=1", Limit: 2, Continue: page.Continue}); len(
		rest.Items) != 0 || rest.Continue != "" {
		t.Errorf("then %d items, %+v", len(rest.Items), rest.ListMeta)
	}
	// A list that selects an object by name gets its current state, also in a page of an earlier resource version.
	is := list(metav1.ListOptions{FieldSelector: "metadata.name=a"}).Items[0]
	is.Data = map[string]string{"k": "v"}
	if _, err := client.CoreV1().ConfigMaps("default").Update(t.Context(), &is, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if now := list(metav1.ListOptions{FieldSelector: "metadata.name=a", Limit: 1,
		ResourceVersion: is.ResourceVersion}); now.Items[0].Data["k"] != "v" ||
		now.ResourceVersion == is.ResourceVersion {
		t.Errorf("a page of one: %+v", now)
	}
}

// TestDeleteCollectionOfAVersion deletes what there was then, as a page without a match is of that version alone.
func TestDeleteCollectionOfAVersion(t *testing.T) {
	f := start(t, withoutServiceAccounts)
	client := f.client(t)
	first := create(t, client, configMap("a", nil))
	create(t, client, configMap("b", nil))
	code, text, _ := f.raw(t, "DELETE",
		"/api/v1/namespaces/default/configmaps?resourceVersion="+first.GetResourceVersion(), "", "")
	var deleted corev1.ConfigMapList
	if err := json.Unmarshal([]byte(text), &deleted); err != nil || code != 200 || len(deleted.Items) != 1 ||
		deleted.Items[0].Name != "a" {
		t.Errorf("%d %s, %v", code, text, err)
	}
	if left, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); err != nil ||
		len(left.Items) != 1 || left.Items[0].Name != "b" {
		t.Errorf("left: %+v, %v", left, err)
	}
}

// TestCreationByChange: who may update and not create is told of other faults first; and what only a POST wipes stays.
func TestCreationByChange(t *testing.T) {
	f := start(t)
	rbac := f.client(t).RbacV1()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "changes"},
		Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"update", "patch"}, APIGroups: []string{"coordination.k8s.io"},
				Resources: []string{"leases"}}}}
	if _, err := rbac.ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "alice"}}}
	if _, err := rbac.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the binding to hold", func() bool { // only what is missing is refused for want of a right
		resp, text := f.with(t, "PUT", "/apis/coordination.k8s.io/v1/namespaces/none/leases/new", "{}", "Content-Type",
			"application/json", "Authorization", "Bearer alice")
		return resp.StatusCode != http.StatusForbidden || !strings.Contains(text, "cannot update")
	})
	const lease = `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"new"%s},"spec":%s}`
	for _, c := range []struct {
		name, method, path, media, body string
		code                            int
		says                            string
	}{
		{"no namespace", "PUT", "/apis/coordination.k8s.io/v1/namespaces/none/leases/new", "application/json",
			fmt.Sprintf(lease, "", "{}"), 404, `namespaces "none" not found`},
		{"invalid", "PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/new", "application/json",
			fmt.Sprintf(lease, "", `{"leaseDurationSeconds":-1}`), 422, "must be greater than 0"},
		{"refused", "PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/new", "application/json",
			fmt.Sprintf(lease, "", "{}"), 403, `cannot create resource "leases"`},
		{"applied", "PATCH", "/apis/coordination.k8s.io/v1/namespaces/default/leases/new?fieldManager=m",
			"application/apply-patch+yaml", fmt.Sprintf(lease, "", "{}"), 403, `cannot create resource "leases"`},
	} {
		resp, text := f.with(t, c.method, c.path, c.body, "Content-Type", c.media, "Authorization", "Bearer alice")
		if resp.StatusCode != c.code || !strings.Contains(text, strings.ReplaceAll(c.says, `"`, `\"`)) {
			t.Errorf("%s: %d %s", c.name, resp.StatusCode, text)
		}
	}
	_, text, _ := f.raw(t, "PUT", "/apis/coordination.k8s.io/v1/namespaces/default/leases/new", "application/json",
		fmt.Sprintf(lease, `,"deletionTimestamp":"2020-01-01T00:00:00Z","deletionGracePeriodSeconds":7,"uid":""`, "{}"))
	if !strings.Contains(text, `"deletionTimestamp":"2020-01-01T00:00:00Z","deletionGracePeriodSeconds":7`) {
		t.Errorf("created by PUT: %s", text)
	}
}

// TestCompressedAnswers are those to writes, too, if they are large.
func TestCompressedAnswers(t *testing.T) {
	f := start(t)
	large := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"large"},"data":{"a":"` +
		strings.Repeat("a", 200<<10) + `"}}`
	for _, c := range []struct{ method, path, body string }{
		{"POST", "", large}, {"PUT", "/large", large}, {"DELETE", "", ""},
	} {
		resp, _ := f.with(t, c.method, "/api/v1/namespaces/default/configmaps"+c.path, c.body, "Content-Type",
			"application/json", "Accept-Encoding", "gzip")
		if resp.StatusCode/100 != 2 || resp.Header.Get("Content-Encoding") != "gzip" ||
			resp.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: %s %v", c.method, resp.Status, resp.Header)
		}
	}
}

// TestNobodyToJudge is of an authorizer that fails: as with upstream, the answer is no Status.
func TestNobodyToJudge(t *testing.T) {
	file := filepath.Join(t.TempDir(), "webhook.yaml")
	if err := os.WriteFile(file,
		[]byte("{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "+
			"'https://127.0.0.1:1'}}], "+
			"users: [{name: u}], contexts: [{name: c, context: {cluster: c, user: u}}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := start(t, func(c *options.Config) {
		c.AuthorizationModes, c.AuthorizationWebhook.ConfigFile = []string{"Webhook"}, file
	})
	resp, text := f.with(t, "GET", "/api/v1/pods?x=<y>", "", "Authorization", "Bearer alice")
	if resp.StatusCode != 500 || resp.Header.Get("X-Content-Type-Options") != "nosniff" ||
		!strings.HasPrefix(text, `Internal Server Error: "/api/v1/pods?x=`) {
		t.Errorf("%s %v %s", resp.Status, resp.Header, text)
	}
}

// TestAddressesOfClients: those in the range of services are told of the Service, too.
func TestAddressesOfClients(t *testing.T) {
	f := start(t)
	for from, want := range map[string]int{"192.0.2.1": 1, "10.0.0.9": 2} {
		_, text := f.with(t, "GET", "/api", "", "X-Forwarded-For", from)
		var versions metav1.APIVersions
		if err := json.Unmarshal([]byte(text), &versions); err != nil ||
			len(versions.ServerAddressByClientCIDRs) != want {
			t.Errorf("%s: %s, %v", from, text, err)
		}
		if want == 2 && fmt.Sprint(versions.ServerAddressByClientCIDRs[1]) != "{10.0.0.0/24 10.0.0.1:443}" {
			t.Errorf("%s: %+v", from, versions.ServerAddressByClientCIDRs)
		}
	}
}
