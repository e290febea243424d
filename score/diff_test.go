package score

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	out := decode([]byte(text))
	if out == nil {
		t.Fatalf("no object: %s", text)
	}
	return out
}

func TestDiffNamesWhatChanged(t *testing.T) {
	for name, c := range map[string]struct {
		before, after string
		want          []Field
	}{
		"scalar":  {`{"spec":{"replicas":1}}`, `{"spec":{"replicas":3}}`, []Field{{"spec.replicas", "1", "3"}}},
		"same":    {`{"spec":{"a":[1,{"b":2}]}}`, `{"spec":{"a":[1,{"b":2}]}}`, nil},
		"removed": {`{"spec":{"a":"x","b":true}}`, `{"spec":{"b":true}}`, []Field{{"spec.a", "x", ""}}},
		"annotation": {`{"metadata":{}}`, `{"metadata":{"annotations":{"example.org/a":"b"}}}`,
			[]Field{{"metadata.annotations[example.org/a]", "", "b"}}},
		"unobserved": {`{"metadata":{"resourceVersion":"1","managedFields":[]}}`, `{"metadata":{"resourceVersion":"2"}}`,
			nil},
		"a field called resourceVersion elsewhere": {`{"spec":{"resourceVersion":"1"}}`, `{"spec":{"resourceVersion":"2"}}`,
			[]Field{{"spec.resourceVersion", "1", "2"}}},
		"type fields of one alone": {`{"spec":{"a":1}}`, `{"apiVersion":"v1","kind":"Pod","spec":{"a":2}}`,
			[]Field{{"spec.a", "1", "2"}}},
		"type fields of another object": {`{"spec":{"ref":{"apiVersion":"v1"}}}`,
			`{"spec":{"ref":{"apiVersion":"v1","kind":"Pod"}}}`, []Field{{"spec.ref.kind", "", "Pod"}}},
		"condition": {`{"status":{"conditions":[{"type":"A","status":"True"},{"type":"Ready","status":"False"}]}}`,
			`{"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"A","status":"True"}]}}`,
			[]Field{{"status.conditions[Ready].status", "False", "True"}}},
		"items": {`{"spec":{"containers":[{"name":"a","image":"x"},{"name":"b"}]}}`,
			`{"spec":{"containers":[{"name":"a","image":"y"},{"name":"c"}]}}`,
			[]Field{{"spec.containers[a].image", "x", "y"}, {"spec.containers[c]", "", "…"}, {"spec.containers[b]", "…", ""}}},
		"index":  {`{"spec":{"args":["a","b"]}}`, `{"spec":{"args":["a","c"]}}`, []Field{{"spec.args[1]", "b", "c"}}},
		"length": {`{"spec":{"args":["a"]}}`, `{"spec":{"args":["a","c"]}}`, []Field{{"spec.args", "…", "…"}}},
		"type":   {`{"spec":{"a":{"b":1}}}`, `{"spec":{"a":"b"}}`, []Field{{"spec.a", "…", "b"}}},
	} {
		got, more := fieldsOf(diff(object(t, c.before), object(t, c.after)), false)
		if !slices.Equal(got, c.want) || more != 0 {
			t.Errorf("%s: %v and %d more, want %v", name, got, more, c.want)
		}
	}
}

func TestFieldsAreBounded(t *testing.T) {
	after := map[string]any{}
	for i := range maxFields + 5 {
		after[fmt.Sprintf("f%02d", i)] = string(make([]byte, 1000))
	}
	fields, more := fieldsOf(diff(nil, after), false)
	if len(fields) != maxFields || more != 5 || len(fields[0].To) > maxValue+len("…") {
		t.Errorf("%d fields of %d bytes, and %d more", len(fields), len(fields[0].To), more)
	}
}

func TestSecretsKeepTheirValues(t *testing.T) {
	changes := diff(object(t, `{"data":{"p":"b2xk"}}`), object(t, `{"data":{"p":"bmV3"}}`))
	if got, _ := fieldsOf(changes, true); len(got) != 1 || got[0] != (Field{Path: "data.p"}) {
		t.Errorf("recorded %v", got)
	}
}

// TestDiffIsEmptyForTheSameAlone: two objects differ by diff exactly if they do.
func TestDiffIsEmptyForTheSameAlone(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		a, b := randomObject(random, 3), randomObject(random, 3)
		changes := diff(a, b)
		if same := reflect.DeepEqual(a, b); same != (len(changes) == 0) {
			x, _ := json.Marshal(a)
			y, _ := json.Marshal(b)
			t.Fatalf("%s and %s: %d changes", x, y, len(changes))
		}
		for _, c := range changes {
			if reflect.DeepEqual(c.from, c.to) {
				t.Fatalf("%s did not change", pathOf(c.path))
			}
		}
		if len(diff(a, a)) > 0 {
			t.Fatal("an object differs from itself")
		}
	}
}

func randomObject(random *rand.Rand, depth int) map[string]any {
	out := map[string]any{}
	for range random.IntN(3) {
		name := string(rune('a' + random.IntN(3)))
		switch kind := random.IntN(4); {
		case kind == 0 && depth > 0:
			inside := randomObject(random, depth-1)
			inside["x"] = "y" // an empty map and none are told apart by managed fields, not by diff
			out[name] = inside
		case kind == 1 && depth > 0:
			out[name] = []any{map[string]any{"name": "i", "v": randomObject(random, depth-1)}}
		default:
			out[name] = fmt.Sprint(random.IntN(2))
		}
	}
	return out
}
