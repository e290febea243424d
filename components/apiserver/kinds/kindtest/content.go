package kindtest

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// Parse reads a map from YAML.
func Parse(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

// ParseChange reads a change: values by path as YAML, one a line or separated by semicolons.
func ParseChange(t *testing.T, text string) map[string]any {
	t.Helper()
	return normal(t, Parse(t, strings.ReplaceAll(text, "; ", "\n")))
}

// Write is a map as YAML.
func Write(t *testing.T, content map[string]any) string {
	t.Helper()
	text, err := yaml.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Decode is content as a defaulted hub object, and the version that it is written in.
func Decode(t *testing.T, k *api.Kind, content map[string]any) (api.Object, *api.Version) {
	t.Helper()
	gvk := (&unstructured.Unstructured{Object: content}).GroupVersionKind()
	v := k.Version(gvk.GroupVersion())
	if v == nil {
		t.Fatalf("%s has no version %q", k.Name, gvk.GroupVersion())
	}
	obj := v.New()
	text, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	if strict, err := kjson.UnmarshalStrict(text, obj); err != nil || len(strict) > 0 {
		t.Fatal(strict, err, string(text))
	}
	if v.Default != nil {
		v.Default(obj)
	}
	if v.ToHub == nil {
		return obj, v
	}
	hub, err := v.ToHub(obj)
	if err != nil {
		t.Fatal(err)
	}
	if d := k.HubVersion().Default; d != nil {
		d(hub)
	}
	return hub, v
}

// Change is content with some values set, by path; it shares nothing with content. Maps on the way are made.
func Change(t *testing.T, content map[string]any, set map[string]any) map[string]any {
	t.Helper()
	out := normal(t, content)
	for path, value := range normal(t, set) {
		list := steps(path)
		parent := parentOf(t, out, path, list)
		switch last := list[len(list)-1]; p := parent.(type) {
		case map[string]any:
			if value == nil {
				delete(p, last)
			} else {
				p[last] = runtime.DeepCopyJSONValue(value)
			}
		case []any:
			i, err := strconv.Atoi(last)
			if err != nil || i >= len(p) {
				t.Fatalf("no such item: %s", path)
			}
			p[i] = runtime.DeepCopyJSONValue(value)
		default:
			t.Fatalf("there is nothing at %s", path)
		}
	}
	return out
}

func parentOf(t *testing.T, out map[string]any, path string, list []string) any {
	t.Helper()
	for i := range list[:len(list)-1] {
		if _, ok := at(out, list[:i+1]); ok {
			continue
		}
		parent, _ := at(out, list[:i])
		m, ok := parent.(map[string]any)
		if !ok {
			t.Fatalf("there is nothing at %s", path)
		}
		m[list[i]] = map[string]any{}
	}
	parent, _ := at(out, list[:len(list)-1])
	return parent
}

// normal is content of the types that unstructured content has.
func normal(t *testing.T, content map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Value is what stands at a path, nil for nothing.
func Value(content map[string]any, path string) any {
	got, _ := at(content, steps(path))
	return got
}

// steps takes a path apart: spec.rules[0].host, or data["a.b"] for names with dots.
func steps(path string) []string {
	var out []string
	for path != "" {
		switch {
		case strings.HasPrefix(path, `["`):
			name, rest, _ := strings.Cut(path[2:], `"]`)
			out, path = append(out, name), rest
		case strings.HasPrefix(path, "["):
			index, rest, _ := strings.Cut(path[1:], "]")
			out, path = append(out, index), rest
		default:
			path = strings.TrimPrefix(path, ".")
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			out, path = append(out, path[:end]), path[end:]
		}
	}
	return out
}

// at goes down the steps.
func at(v any, path []string) (any, bool) {
	for _, step := range path {
		switch p := v.(type) {
		case map[string]any:
			v = p[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(p) {
				return nil, false
			}
			v = p[i]
		default:
			return nil, false
		}
	}
	return v, v != nil
}
