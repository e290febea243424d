package openapi

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// TestNoEnums: which values there are is told, or not, and documents that differ in that have other hashes.
func TestNoEnums(t *testing.T) {
	bodies := map[bool]map[string]string{}
	for _, off := range []bool{false, true} {
		s := New("v1.36.0", Form{NoEnums: off})
		s.Set(kinds.Table(api.Deps{}), nil)
		server := httptest.NewServer(s)
		defer server.Close()
		bodies[off] = map[string]string{}
		for _, path := range []string{"/openapi/v2", "/openapi/v3/api/v1", "/openapi/v3"} {
			_, body := get(t, server.URL+path)
			bodies[off][path] = string(body)
		}
		for path, model := range map[string]string{"/openapi/v2": "definitions", "/openapi/v3/api/v1": "schemas"} {
			text := bodies[off][path]
			if tells := strings.Contains(text, "Possible enum values:"); tells == off {
				t.Errorf("%s: told in descriptions: %v", path, tells)
			}
			protocol := property(t, text, model, "io.k8s.api.core.v1.ContainerPort", "protocol")
			if _, tells := protocol["enum"]; tells == off {
				t.Errorf("%s: %v", path, protocol)
			}
			if said := protocol["description"].(string); off &&
				said != `Protocol for port. Must be UDP, TCP, or SCTP. Defaults to "TCP".` {
				t.Errorf("%s: %q", path, said)
			}
		}
	}
	if bodies[true]["/openapi/v3"] == bodies[false]["/openapi/v3"] {
		t.Error("the hashes are the same")
	}
	var definition map[string]any
	if err := json.Unmarshal(
		[]byte(`{"properties":{"enum":{"type":"array","enum":["a"],"description":"Possible enum values:\n - a"}}}`),
		&definition); err != nil {
		t.Fatal(err)
	}
	forgetEnums(definition)
	if got, _ := json.Marshal(definition); string(got) != `{"properties":{"enum":{"type":"array"}}}` {
		t.Errorf("%s", got)
	}
}

// property is the schema of a field in a document.
func property(t *testing.T, document, section, model, field string) map[string]any {
	t.Helper()
	type models map[string]struct{ Properties map[string]map[string]any }
	var all struct {
		Definitions models
		Components  struct{ Schemas models }
	}
	if err := json.Unmarshal([]byte(document), &all); err != nil {
		t.Fatal(err)
	}
	if section == "definitions" {
		return all.Definitions[model].Properties[field]
	}
	return all.Components.Schemas[model].Properties[field]
}
