package apiserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/components/apiserver/audit"
	"quintet.dev/quintet/components/apiserver/options"
)

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, users: [system:apiserver]}
- {level: Request, resources: [{resources: [serviceaccounts/token]}], namespaces: [kube-system]}
- {level: Metadata, resources: [{resources: [serviceaccounts/token, secrets]}]}
- {level: Request, verbs: [patch]}
- {level: RequestResponse, omitManagedFields: true, namespaces: [kube-system]}
- {level: RequestResponse}
`

// ask is one request; its name becomes its audit ID.
type ask struct {
	name, token, method, path, body string
	header                          map[string]string
}

// audited sends requests to a server with the policy, and returns the events of each.
func audited(t *testing.T, asks []ask) map[string][]auditv1.Event {
	t.Helper()
	return events(t, func(f *fixture) {
		for _, a := range asks {
			f.send(t, a)
		}
	})
}

// events are those of what is asked of a server with the policy.
func events(t *testing.T, send func(f *fixture)) map[string][]auditv1.Event {
	t.Helper()
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	f := start(t, withoutServiceAccounts, func(c *options.Config) {
		c.Audit = audit.Defaults()
		c.Audit.PolicyFile, c.Audit.Log.Path = policy, log
	})
	send(f)
	f.stop()
	content, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]auditv1.Event{}
	for line := range bytes.Lines(content) {
		var e auditv1.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		out[string(e.AuditID)] = append(out[string(e.AuditID)], e)
	}
	return out
}

func (f *fixture) send(t *testing.T, a ask) {
	t.Helper()
	f.sendBody(t, a, strings.NewReader(a.body))
}

func (f *fixture) sendBody(t *testing.T, a ask, body io.Reader) {
	t.Helper()
	config := f.as(a.token)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), a.method, config.Host+a.path, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Audit-ID", a.name)
	request.Header.Set("User-Agent", "a test")
	request.Header.Set("Content-Type", "application/json")
	for k, v := range a.header {
		request.Header.Set(k, v)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	if got := response.Header.Get("Audit-Id"); got != a.name {
		t.Errorf("%s: the answer has the Audit-ID %q", a.name, got)
	}
}

// gist is an event without what differs from run to run.
func gist(e *auditv1.Event) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s %s %s", e.Level, e.Stage, e.Verb, e.User.Username)
	if e.ImpersonatedUser != nil {
		fmt.Fprintf(&out, " as %s%q", e.ImpersonatedUser.Username, e.ImpersonatedUser.Groups)
	}
	if r := e.ObjectRef; r != nil {
		fmt.Fprintf(&out, " on %s/%s/%s/%s/%s/%s", r.APIGroup, r.APIVersion, r.Namespace, r.Resource, r.Name,
			r.Subresource)
	}
	if s := e.ResponseStatus; s != nil {
		fmt.Fprintf(&out, " -> %d %s", s.Code, s.Reason)
	}
	for _, k := range slices.Sorted(maps.Keys(e.Annotations)) {
		value := e.Annotations[k]
		if k == "authentication.kubernetes.io/issued-credential-id" {
			value = value[:len("JTI=")]
		}
		fmt.Fprintf(&out, " [%s=%s]", k, value)
	}
	fmt.Fprintf(&out, "%s%s", object(" sent", e.RequestObject), object(" got", e.ResponseObject))
	return out.String()
}

// object names what an event has of a request or an answer, and whether that tells of managed fields.
func object(what string, o *runtime.Unknown) string {
	if o == nil {
		return ""
	}
	var is metav1.TypeMeta
	if err := json.Unmarshal(o.Raw, &is); err != nil || is.Kind == "" {
		return what + " " + string(o.Raw)
	}
	if bytes.Contains(o.Raw, []byte(`"managedFields"`)) {
		what += " managed"
	}
	return what + " " + is.APIVersion + "." + is.Kind
}

func TestAudit(t *testing.T) {
	const (
		configMaps = "/api/v1/namespaces/default/configmaps"
		inSystem   = "/api/v1/namespaces/kube-system/configmaps"
		scalers    = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
		allow      = " [authorization.k8s.io/decision=allow] [authorization.k8s.io/reason=]"
		forbid     = " [authorization.k8s.io/decision=forbid] [authorization.k8s.io/reason=]"
		full       = "RequestResponse ResponseComplete "
		scaler     = `{"metadata":{"name":"h"},"spec":{"maxReplicas":2,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}`
		filled     = `{"metadata":{"name":"a"},"data":{"x":"y"}}`
		hostPod    = `{"metadata":{"name":"p"},"spec":{"hostNetwork":true,"containers":[{"name":"c","image":"i"}]}}`
	)
	asTable := map[string]string{"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
	cases := []struct {
		ask
		want []string
	}{
		{ask{"create", "admin", "POST", configMaps, filled, nil},
			[]string{full + "create admin on /v1/default/configmaps/a/ -> 201 " + allow +
				" sent v1.ConfigMap got managed v1.ConfigMap"}},
		{ask{"create with fewer fields", "admin", "POST", inSystem, filled, nil},
			[]string{full + "create admin on /v1/kube-system/configmaps/a/ -> 201 " + allow +
				" sent v1.ConfigMap got v1.ConfigMap"}},
		{ask{"create twice", "admin", "POST", configMaps, filled, nil},
			[]string{full + "create admin on /v1/default/configmaps/a/ -> 409 AlreadyExists" + allow +
				" sent v1.ConfigMap got v1.Status"}},
		{ask{"create nonsense", "admin", "POST", configMaps, `{"x`, nil},
			[]string{full + "create admin on /v1/default/configmaps// -> 400 BadRequest" + allow + " got v1.Status"}},
		{ask{"another version", "admin", "POST", scalers, scaler, nil},
			[]string{full + "create admin on autoscaling/v1/default/horizontalpodautoscalers/h/ -> 201 " + allow +
				" sent autoscaling/v1.HorizontalPodAutoscaler got managed autoscaling/v1.HorizontalPodAutoscaler"}},
		{ask{"list", "admin", "GET", configMaps, "", nil},
			[]string{full + "list admin on /v1/default/configmaps// -> 200 " + allow +
				" got managed v1.ConfigMapList"}},
		{ask{"list with fewer fields", "admin", "GET", inSystem, "", nil},
			[]string{full + "list admin on /v1/kube-system/configmaps// -> 200 " + allow + " got v1.ConfigMapList"}},
		{ask{"table", "admin", "GET", configMaps, "", asTable},
			[]string{full + "list admin on /v1/default/configmaps// -> 200 " + allow +
				" got managed meta.k8s.io/v1.Table"}},
		{ask{"table with fewer fields", "admin", "GET", inSystem, "", asTable},
			[]string{full + "list admin on /v1/kube-system/configmaps// -> 200 " + allow +
				" got meta.k8s.io/v1.Table"}},
		{ask{"patch", "admin", "PATCH", configMaps + "/a", `{"data":{"k":"v"}}`,
			map[string]string{"Content-Type": "application/merge-patch+json"}},
			[]string{"Request ResponseComplete patch admin on /v1/default/configmaps/a/ -> 200 " + allow +
				` sent {"data":{"k":"v"}}`}},
		{ask{"dry run", "admin", "PUT", configMaps + "/a?dryRun=All", filled, nil},
			[]string{full + "update admin on /v1/default/configmaps/a/ -> 200 " + allow +
				" sent v1.ConfigMap got managed v1.ConfigMap"}},
		{ask{"watch", "admin", "GET", configMaps + "?watch=1&timeoutSeconds=1", "", nil}, []string{
			"RequestResponse ResponseStarted watch admin on /v1/default/configmaps// -> 200 " + allow,
			full + "watch admin on /v1/default/configmaps// -> 200 " + allow}},
		{ask{"delete", "admin", "DELETE", configMaps + "/a", `{"apiVersion":"v1","kind":"DeleteOptions"}`, nil},
			[]string{full + "delete admin on /v1/default/configmaps/a/ -> 200 " + allow +
				" sent meta.k8s.io/__internal.DeleteOptions got v1.Status"}},
		{ask{"delete all", "admin", "DELETE", configMaps, "", nil},
			[]string{full + "deletecollection admin on /v1/default/configmaps// -> 200 " + allow +
				" got v1.ConfigMapList"}},
		{ask{"not found", "admin", "GET", configMaps + "/none", "", nil},
			[]string{full + "get admin on /v1/default/configmaps/none/ -> 404 NotFound" + allow + " got v1.Status"}},
		{ask{"forbidden", "alice", "GET", configMaps, "", nil},
			[]string{full + "list alice on /v1/default/configmaps// -> 403 Forbidden" + forbid + " got v1.Status"}},
		{ask{"unauthenticated", "nobody", "GET", configMaps, "", nil},
			[]string{"RequestResponse ResponseStarted list  on /v1/default/configmaps// -> 401 Unauthorized got v1.Status"}},
		{ask{"impersonated", "admin", "GET", configMaps, "", map[string]string{"Impersonate-User": "alice"}},
			[]string{full + `list admin as alice["system:authenticated"] on /v1/default/configmaps// -> 403 Forbidden` +
				forbid + " got v1.Status"}},
		{ask{"bad timeout", "admin", "GET", configMaps + "?timeout=soon", "", nil},
			[]string{"RequestResponse ResponseStarted list  on /v1/default/configmaps// -> 400 BadRequest got v1.Status"}},
		{ask{"too late", "admin", "POST", configMaps + "?timeout=1ns", `{"x`, nil},
			[]string{full + "create admin on /v1/default/configmaps// -> 504 Timeout" + allow + " got v1.Status"}},
		{ask{"deprecated", "admin", "GET", "/api/v1/namespaces/default/endpoints/x", "", nil},
			[]string{full + "get admin on /v1/default/endpoints/x/ -> 404 NotFound" + allow +
				" [k8s.io/deprecated=true] got v1.Status"}},
		{ask{"account", "admin", "POST", "/api/v1/namespaces/default/serviceaccounts", `{"metadata":{"name":"s"}}`,
			nil},
			[]string{full + "create admin on /v1/default/serviceaccounts/s/ -> 201 " + allow +
				" sent v1.ServiceAccount got v1.ServiceAccount"}},
		{ask{"token", "admin", "POST", "/api/v1/namespaces/default/serviceaccounts/s/token",
			`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest"}`, nil},
			[]string{"Metadata ResponseComplete create admin on /v1/default/serviceaccounts/s/token -> 201  " +
				"[authentication.kubernetes.io/issued-credential-id=JTI=]" + allow}},
		{ask{"pod", "admin", "POST", "/api/v1/namespaces/default/pods", hostPod, nil},
			[]string{full + "create admin on /v1/default/pods/p/ -> 201 " + allow +
				" [pod-security.kubernetes.io/enforce-policy=privileged:latest] sent v1.Pod got managed v1.Pod"}},
		{ask{"exec", "admin", "POST", "/api/v1/namespaces/default/pods/p/exec?command=ls&stdout=1", "", nil}, []string{
			"RequestResponse ResponseStarted create admin on /v1/default/pods/p/exec -> 400 BadRequest" + allow +
				" got v1.Status",
			full + "create admin on /v1/default/pods/p/exec -> 400 BadRequest" + allow + " got v1.Status"}},
		{ask{"discovery", "admin", "GET", "/apis/apps/v1", "", nil},
			[]string{full + "get admin -> 200 " + allow + " got v1.APIResourceList"}},
		{ask{"version", "admin", "GET", "/version", "", nil}, []string{full + "get admin -> 200 " + allow}},
		{ask{"no such path", "admin", "GET", "/nothing", "", nil}, []string{full + "get admin -> 404 " + allow}},
	}
	asks := make([]ask, len(cases))
	for i := range cases {
		asks[i] = cases[i].ask
	}
	events := audited(t, asks)
	for _, c := range cases {
		var got []string
		for _, e := range events[c.name] {
			if e.RequestURI != c.path || e.UserAgent != "a test" || len(e.SourceIPs) != 1 {
				t.Errorf("%s: got %s, %s, %s", c.name, e.RequestURI, e.UserAgent, e.SourceIPs)
			}
			got = append(got, gist(&e))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", c.name, got, c.want)
		}
	}
}

// TestAuditOfTokens: the event shows the lifetime of a token, even where the request doesn't set it.
func TestAuditOfTokens(t *testing.T) {
	const accounts = "/api/v1/namespaces/kube-system/serviceaccounts"
	told := audited(t, []ask{
		{"account", "admin", "POST", accounts, `{"metadata":{"name":"s"}}`, nil},
		{"open", "admin", "POST", accounts + "/s/token",
			`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest"}`, nil},
		{"said", "admin", "POST", accounts + "/s/token",
			`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":700}}`, nil},
	})
	for name, want := range map[string]int64{"open": 3600, "said": 700} {
		if len(told[name]) != 1 || told[name][0].RequestObject == nil {
			t.Errorf("%s: %+v", name, told[name])
			continue
		}
		var asked authenticationv1.TokenRequest
		if err := json.Unmarshal(told[name][0].RequestObject.Raw, &asked); err != nil {
			t.Fatal(err)
		}
		if got := asked.Spec.ExpirationSeconds; got == nil || *got != want {
			t.Errorf("%s: %s", name, told[name][0].RequestObject.Raw)
		}
	}
}

// TestAuditOfAMalformedTimeout: the event shows the error, though the request was not authenticated.
func TestAuditOfAMalformedTimeout(t *testing.T) {
	got := audited(t, []ask{{"bad timeout", "admin", "GET", configMaps + "?timeout=soon", "", nil}})["bad timeout"]
	if len(got) != 1 || got[0].ResponseStatus == nil ||
		!strings.HasPrefix(got[0].ResponseStatus.Message, "invalid timeout specified in the request URL - ") {
		t.Errorf("got %+v", got)
	}
}
