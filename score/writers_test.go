package score

import (
	"encoding/json"
	"slices"
	"testing"
)

func managedFields(t *testing.T, text string) []managed {
	t.Helper()
	var out []managed
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

const (
	kcm1 = `{"manager":"kcm","operation":"Update","subresource":"status","time":"2026-01-01T00:00:01Z","fieldsV1":` +
		`{"f:status":{"f:replicas":{},"f:conditions":{".":{},"k:{\"type\":\"Ready\"}":{".":{},"f:status":{}}}}}}`
	kcm2 = `{"manager":"kcm","operation":"Update","subresource":"status","time":"2026-01-01T00:00:02Z","fieldsV1":` +
		`{"f:status":{"f:replicas":{},"f:conditions":{".":{},"k:{\"type\":\"Ready\"}":{".":{},"f:status":{}}}}}}`
	me      = `{"manager":"me","operation":"Apply","time":"2026-01-01T00:00:01Z","fieldsV1":{"f:spec":{"f:replicas":{}}}}`
	meLess  = `{"manager":"me","operation":"Apply","time":"2026-01-01T00:00:01Z","fieldsV1":{"f:spec":{}}}`
	scaler  = `{"manager":"hpa","operation":"Update","time":"2026-01-01T00:00:02Z","fieldsV1":{"f:spec":{"f:replicas":{}}}}`
	taker   = `{"manager":"hpa","operation":"Update","time":"2026-01-01T00:00:01Z","fieldsV1":{"f:spec":{"f:replicas":{}}}}`
	labeler = `{"manager":"l","operation":"Update","time":"2026-01-01T00:00:01Z","fieldsV1":{"f:metadata":{"f:labels":{"f:a":{}}}}}`
)

func TestWritersAreFound(t *testing.T) {
	spec := []step{{field: "spec"}, {field: "replicas"}}
	status := []step{{field: "status"}, {field: "replicas"}}
	ready := []step{{field: "status"}, {field: "conditions"}, {item: true, key: "type", value: "Ready"}, {field: "status"}}
	other := []step{{field: "status"}, {field: "conditions"}, {item: true, key: "type", value: "Other"}, {field: "status"}}
	for name, c := range map[string]struct {
		before, after string
		path          []step
		want          []string
	}{
		"another time":            {me + "," + kcm1, me + "," + kcm2, status, []string{"kcm"}},
		"new":                     {me, me + "," + kcm1, status, []string{"kcm"}},
		"within a second":         {me + "," + kcm1, me + "," + kcm1, status, []string{"kcm"}},
		"an item within a second": {me + "," + kcm1, me + "," + kcm1, ready, []string{"kcm"}},
		"another item":            {me + "," + kcm1, me + "," + kcm1, other, nil},
		"takes over":              {me, meLess + "," + scaler, spec, []string{"hpa"}},
		"takes over within a second": {me + "," + labeler, meLess + "," + taker + "," + labeler, spec,
			[]string{"hpa"}},
		"removes within a second":              {me + "," + labeler, meLess + "," + labeler, spec, []string{"me"}},
		"shared, by the last":                  {me + "," + scaler, me + "," + scaler, spec, []string{"hpa"}},
		"unowned":                              {me, me, []step{{field: "metadata"}, {field: "deletionTimestamp"}}, nil},
		"several, of which some were not seen": {"", me + "," + kcm1, spec, []string{"me", "kcm"}},
	} {
		var got []string
		for _, m := range writersOf(managedFields(t, "["+c.before+"]"), managedFields(t, "["+c.after+"]"),
			[]change{{path: c.path}}) {
			got = append(got, m.Manager)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
