package apiserver_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// target is a server that is sent anything. It must answer, and never by a fault of its own.
type target struct {
	client *http.Client
	host   string
}

func newTarget(f *testing.F) *target {
	f.Helper()
	server := start(f, withoutServiceAccounts)
	client, err := rest.HTTPClientFor(server.as("admin"))
	if err != nil {
		f.Fatal(err)
	}
	return &target{client, server.as("admin").Host}
}

func (s *target) send(t testing.TB, method, path string, header http.Header, body []byte) (int, string) {
	t.Helper()
	request, err := http.NewRequest(method, s.host+path, strings.NewReader(string(body)))
	if err != nil {
		return 0, "" // no client sends that
	}
	for name, values := range header {
		request.Header[name] = values
	}
	response, err := s.client.Do(request)
	if err != nil {
		if strings.Contains(err.Error(), "invalid") { // the client refuses to send it
			return 0, ""
		}
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode >= 500 && strings.Contains(string(text), "panic") {
		t.Fatalf("%s %s: %d %s", method, path, response.StatusCode, text)
	}
	return response.StatusCode, string(text)
}

func media(of string) http.Header { return http.Header{"Content-Type": {of}} }

const fuzzedMap = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","managedFields":[{"manager":"a","operation":"Apply","apiVersion":"v1",` +
	`"time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:a":{}}}}]},"data":{"a":"1"}}`

// FuzzPatch: patches of every kind.
func FuzzPatch(f *testing.F) {
	s := newTarget(f)
	kinds := []string{"application/json-patch+json", "application/merge-patch+json",
		"application/strategic-merge-patch+json", "application/apply-patch+yaml"}
	const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},` +
		`"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80}]}]}}}}`
	paths := []string{"/api/v1/namespaces/default/configmaps", "/apis/apps/v1/namespaces/default/deployments"}
	for i, body := range []string{fuzzedMap, deployment} {
		if code, text := s.send(f, http.MethodPost, paths[i], media("application/json"),
			[]byte(body)); code != http.StatusCreated {
			f.Fatal(text)
		}
	}
	for _, body := range []string{
		`[{"op":"add","path":"/data/b","value":"2"},{"op":"test","path":"/data/a","value":"1"}]`, `{"data":{"a":null}}`,
		deployment, fuzzedMap,
		`{"metadata":{"managedFields":[{}]}}`,
		`{"spec":{"template":{"spec":{"containers":[{"name":"c","$patch":"delete"}]}}}}`,
		`{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"c"}],"containers":[{"$retainKeys":["name"],"name":"c"}]}}}}`, `[`, ``,
		`[{"op":"copy","from":"/spec","path":"/spec/template"},{"op":"move","from":"/metadata","path":"/x~0~1"}]`,
		"a: &a [*a]",
	} {
		for kind := range kinds {
			f.Add(uint8(kind), uint8(kind/2), []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, kind, path uint8, body []byte) {
		names := []string{"/m", "/d", "/d/scale", "/d/status"}
		at := paths[min(int(path)%len(names), 1)] + names[int(path)%len(names)]
		s.send(t, http.MethodPatch, at+"?dryRun=All&fieldManager=f&fieldValidation=Strict",
			media(kinds[int(kind)%len(kinds)]), body)
		if kind%4 != 3 {
			s.send(t, http.MethodPatch, at+"?dryRun=All", media(kinds[int(kind)%len(kinds)]), body)
		}
	})
}

// FuzzQuery: selectors, continue tokens, resource versions and whatever else stands in a query.
func FuzzQuery(f *testing.F) {
	s := newTarget(f)
	for _, q := range []string{
		"labelSelector=a in (b,c),!d,e!=f,g>1", "fieldSelector=metadata.name=a,spec.nodeName!=b\\,c",
		"limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0",
		"resourceVersion=5&resourceVersionMatch=Exact", "resourceVersion=0&resourceVersionMatch=NotOlderThan",
		"limit=-1", "resourceVersion=18446744073709551615",
		"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&watch=1&timeoutSeconds=1", "pretty=1", "watch=maybe",
		"timeoutSeconds=x", "fieldSelector=a", "labelSelector=a=b=c",
	} {
		f.Add(uint8(0), q)
		f.Add(uint8(2), q)
	}
	f.Fuzz(func(t *testing.T, path uint8, q string) {
		paths := []string{"/api/v1/pods", "/api/v1/namespaces/default/configmaps", "/apis/apps/v1/deployments",
			"/apis/events.k8s.io/v1/events", "/openapi/v3/api/v1"}
		values, err := url.ParseQuery(q)
		if err != nil {
			return
		}
		if values.Has("watch") {
			values.Set("timeoutSeconds", "1")
			values.Set("resourceVersion", "1") // one that is gone: the watch ends at once
			values.Del("sendInitialEvents")
		}
		s.send(t, http.MethodGet, paths[int(path)%len(paths)]+"?"+values.Encode(), nil, nil)
	})
}

// FuzzHeaders: what clients say of themselves, of what they want, and of connections.
func FuzzHeaders(f *testing.F) {
	s := newTarget(f)
	names := []string{"Accept", "Content-Type", "Impersonate-User", "Impersonate-Extra-Scopes",
		"Sec-Websocket-Protocol", "X-Stream-Protocol-Version",
		"Authorization", "Traceparent", "If-None-Match", "Accept-Encoding", "Connection", "Upgrade", "X-Remote-User",
		"Audit-Id"}
	for i, value := range []string{
		"application/json;as=Table;v=v1;g=meta.k8s.io,application/json;q=0.5", "application/json; charset=utf-8",
		"alice", "a%2fb", "base64url.bearer.authorization.k8s.io.YWRtaW4, v5.channel.k8s.io",
		"v4.channel.k8s.io", "Bearer eyJhbGciOiJub25lIn0.e30.",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", `W/"x"`, "gzip;q=0", "Upgrade", "SPDY/3.1",
	} {
		f.Add(uint8(i), value)
	}
	f.Fuzz(func(t *testing.T, name uint8, value string) {
		header := http.Header{names[int(name)%len(names)]: {value}}
		for _, path := range []string{"/api/v1/namespaces/default/configmaps",
			"/api/v1/namespaces/default/pods/none/exec?command=x&stdout=1", "/apis"} {
			s.send(t, http.MethodGet, path, header, nil)
		}
		s.send(t, http.MethodPost, "/api/v1/namespaces/default/configmaps?dryRun=All", header,
			[]byte(`{"metadata":{"name":"x"}}`))
	})
}

// FuzzObject: new objects of many kinds, with their metadata, rules and selectors.
func FuzzObject(f *testing.F) {
	s := newTarget(f)
	paths := []string{
		"/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/pods",
		"/api/v1/namespaces/default/services",
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
		"/apis/resource.k8s.io/v1/deviceclasses", "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
		"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", "/apis/batch/v1/namespaces/default/cronjobs",
		"/apis/authorization.k8s.io/v1/subjectaccessreviews",
		"/apis/authentication.k8s.io/v1/tokenreviews", "/apis/certificates.k8s.io/v1/certificatesigningrequests",
	}
	for _, g := range goldens(f) {
		for i, path := range paths {
			if strings.TrimPrefix(path, "/") == strings.ReplaceAll(strings.TrimPrefix(g.Path, "/"),
				"namespaces/golden/", "namespaces/default/") {
				g.Object.SetNamespace("")
				body, err := g.Object.MarshalJSON()
				if err != nil {
					f.Fatal(err)
				}
				f.Add(uint8(i), body)
			}
		}
	}
	f.Add(uint8(0), []byte(fuzzedMap))
	f.Add(uint8(9),
		[]byte(`{"spec":{"resourceAttributes":{"verb":"get","fieldSelector":{"rawSelector":"a=b"}},"user":"u"}}`))
	f.Add(uint8(10), []byte(`{"spec":{"token":"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJ4In0.AA"}}`))
	f.Fuzz(func(t *testing.T, path uint8, body []byte) {
		at := paths[int(path)%len(paths)] + "?dryRun=All"
		s.send(t, http.MethodPost, at+"&fieldValidation=Strict", media("application/json"), body)
		s.send(t, http.MethodPost, at, media("application/yaml"), body)
		s.send(t, http.MethodPost, at, media("application/vnd.kubernetes.protobuf"), body)
	})
}
