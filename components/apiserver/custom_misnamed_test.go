package apiserver_test

import (
	"strings"
	"testing"
)

// TestCustomResourceOfAnotherKind: that a custom resource is written as one of another kind or version is told where
// everything else about its content is, after what is asked of its identity and version, and together with what lists
// and rules have against it.
func TestCustomResourceOfAnotherKind(t *testing.T) {
	f := startCustom(t)
	a := f.create(t, "a", `spec: {color: red}`)
	const all = "/apis/example.com/v1/namespaces/default/widgets"
	const merge = "application/merge-patch+json"
	put := func(kind, metadata, spec string) string {
		return `{"apiVersion":"example.com/v1","kind":"` + kind + `","metadata":{"name":"a"` + metadata + `},"spec":` +
			spec + `}`
	}
	current := `,"resourceVersion":"` + a.GetResourceVersion() + `"`
	const red, many = `{"color":"red"}`, `{"color":"red","replicas":11}`
	for name, c := range map[string]struct {
		method, path, media, body string
		code                      int
		want                      string
	}{
		"an update of no version": {"PUT", all + "/a", "application/json", put("Other", "", red),
			422,
			`widgets.example.com \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`},
		"an update of another version": {"PUT", all + "/a", "application/json",
			put("Other", `,"resourceVersion":"1"`, red),
			409, `the object has been modified`},
		"an update of another object": {"PUT", all + "/a", "application/json", put("Other", current+`,"uid":"x"`, red),
			409, `Precondition failed: UID in precondition: x`},
		"metadata": {"PUT", all + "/a", "application/json", put("Other", current+`,"labels":{"a b":"c"}`, red),
			422, `Other.example.com \"a\" is invalid: [metadata.labels: Invalid value: \"a b\"`},
		"a rule": {"PUT", all + "/a", "application/json", put("Other", current, many),
			422,
			`Other.example.com \"a\" is invalid: [kind: Invalid value: \"Other\": must be Widget, spec: Invalid value: too many replicas]`},
		"a new object and a rule": {"POST", all, "application/json",
			strings.Replace(put("Other", "", many), `"a"`, `"x"`, 1),
			422,
			`Other.example.com \"x\" is invalid: [kind: Invalid value: \"Other\": must be Widget, spec: Invalid value: too many replicas]`},
		"a patched version and a rule": {"PATCH", all + "/a", merge,
			`{"apiVersion":"example.com/v1beta1","spec":{"replicas":11}}`,
			422,
			`Widget.example.com \"a\" is invalid: [apiVersion: Invalid value: \"example.com/v1beta1\": must be example.com/v1, spec: Invalid value: too many replicas]`},
		"a patched kind and an old version": {"PATCH", all + "/a", merge,
			`{"kind":"Other","metadata":{"resourceVersion":"1"}}`,
			409, `the object has been modified`},
		"a version taken away and an old one": {"PATCH", all + "/a", merge,
			`{"apiVersion":null,"metadata":{"resourceVersion":"1"}}`,
			409, `the object has been modified`},
		"a version that is null": {"PATCH", all + "/a", "application/json-patch+json",
			`[{"op":"replace","path":"/apiVersion","value":null}]`,
			422, `.apiVersion accessor error: \u003cnil\u003e is of the type \u003cnil\u003e, expected string`},
	} {
		if code, text := f.sent(t, c.method, c.path, c.media, c.body); code != c.code ||
			!strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s, want %d %s", name, code, text, c.code, c.want)
		}
	}
}
