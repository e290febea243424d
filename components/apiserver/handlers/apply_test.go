package handlers

import (
	"encoding/json"
	"reflect"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// asYAML reads a patch as what it is said to be.
func asYAML(body []byte) (map[string]any, error) {
	out := map[string]any{}
	err := yaml.Unmarshal(body, &out, func(d *json.Decoder) *json.Decoder { d.UseNumber(); return d })
	if err == nil {
		err = utiljson.ConvertMapNumbers(out, 0)
	}
	return out, err
}

var patches = []struct {
	body  string
	clean bool
}{
	{`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"yes":"no","1":"2"}},"data":{"k":"1.5e3"}}`,
		true},
	{"{\n  \"spec\": {\"replicas\": 3, \"list\": [1, -2, true, null, {}], \"x\": {}}\n}", true},
	{`{"a":9007199254740993,"b":-0}`, true},
	{`{"a":1.0}`, false},
	{`{"a":1e3}`, false},
	{`{"a":99999999999999999999}`, false},
	{`{"a":"\u00e9"}`, false},
	{`{"a":"é"}`, false},
	{`{"<<":{"b":1}}`, false},
	{`{"a":1,"a":2}`, false},
	{`{"a":1} # a comment`, false},
	{`a: 1`, false},
	{`[]`, false},
	{``, false},
}

// TestReadApply: JSON is read as the YAML that it is, too.
func TestReadApply(t *testing.T) {
	for _, c := range patches {
		p := &patcher{call: &call{}, body: []byte(c.body)}
		got, err := p.readApply()
		want, wantErr := asYAML([]byte(c.body))
		if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got.Object, want) {
			t.Errorf("%s: got %v, %v; want %v, %v", c.body, got, err, want, wantErr)
		}
		if p.clean != c.clean {
			t.Errorf("%s: clean is %t", c.body, p.clean)
		}
	}
}

func FuzzReadApply(f *testing.F) {
	for _, c := range patches {
		f.Add(c.body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		p := &patcher{call: &call{}, body: []byte(body)}
		got, err := p.readApply()
		if err != nil || !p.clean {
			return
		}
		if want, err := asYAML([]byte(body)); err != nil || !reflect.DeepEqual(got.Object, want) {
			t.Errorf("%q: got %v; want %v, %v", body, got, want, err)
		}
	})
}
