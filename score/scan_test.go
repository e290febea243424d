package score

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

const usualObject = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"b","uid":"c",` +
	`"resourceVersion":"12","generation":1,"creationTimestamp":"2026-01-02T03:04:05Z","labels":{"x":"\"}"},` +
	`"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u","controller":true}],` +
	`"managedFields":[{"manager":"kubectl","operation":"Update","apiVersion":"v1","time":"2026-01-02T03:04:05Z",` +
	`"fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"k:{\"a\":1}":{}}}},{"manager":"m","subresource":"status"}]},` +
	`"spec":{"nodeName":"n"}}`

// FuzzHead: what the scanner cuts out of a valid object is what encoding/json finds in it.
func FuzzHead(f *testing.F) {
	for _, seed := range []string{usualObject, `{"metadata":{}}`,
		`{"a":[1,{"b":-2e3}],"c":true , "metadata" : {"name" : "x"} }`,
		`{"metadata":{"Name":"other case"}}`, `{"metadata":{"name":"\u0061"}}`, `{"metadata":{"name":null}}`,
		`{"metadata":{"managedFields":[],"ownerReferences":null}}`, `{"metadata":null}`, `{"metadata":{"name":"é"}}`,
		`{"metadata":{"managedFields":[{"manager":"a"}],"managedFields":[{"time":"b"}]}}`, `{"spec":{}}`, `[]`, `1`,
		`{"metadata":{"creationTimestamp":"yesterday"}}`, `{"metadata":{"managedFields":[{"fieldsV1":null}]}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, ok := scanHead(raw)
		if !ok || !json.Valid(raw) {
			return
		}
		want, err := decodeHead(raw)
		if err != nil {
			t.Fatalf("%s: encoding/json refuses it: %v", raw, err)
		}
		if !reflect.DeepEqual(normal(got), normal(want)) {
			t.Errorf("%s:\n%+v, encoding/json reads\n%+v", raw, got, want)
		}
	})
}

// normal tells no empty list from none.
func normal(h head) head {
	if len(h.ManagedFields) == 0 {
		h.ManagedFields = nil
	}
	if len(h.OwnerReferences) == 0 {
		h.OwnerReferences = nil
	}
	return h
}

// TestUsualHead: objects as API servers write them are not decoded.
func TestUsualHead(t *testing.T) {
	h, ok := scanHead([]byte(usualObject))
	if !ok || h.Name != "a" || len(h.ManagedFields) != 2 || len(h.OwnerReferences) != 1 {
		t.Errorf("%t: %+v", ok, h)
	}
	for cut := range len(usualObject) - len(`,"spec":{"nodeName":"n"}}`) {
		if _, ok := scanHead([]byte(usualObject[:cut])); ok {
			t.Errorf("an object that ends at %d is read", cut)
		}
	}
	if _, ok := scanHead([]byte(strings.Replace(usualObject, `"a"`, `"\u0061"`, 1))); ok {
		t.Error("an escape is not left to encoding/json")
	}
}

func BenchmarkHead(b *testing.B) {
	for name, read := range map[string]func([]byte) (head, error){"scan": headOf, "decode": decodeHead} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, _ = read([]byte(usualObject))
			}
		})
	}
}
