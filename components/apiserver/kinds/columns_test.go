package kinds

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// shown is what testdata/tables.yaml says of a kind: its columns, as "Name type [format] [wide]", and the cells of
// objects a day after they were made.
type shown struct {
	Kind    string   `json:"kind"`
	Columns []string `json:"columns"`
	Rows    []struct {
		Cells  []any           `json:"cells"`
		Object json.RawMessage `json:"object"`
	} `json:"rows"`
}

// TestTables shows objects in telling states as kubectl get -o wide does.
func TestTables(t *testing.T) {
	text, err := os.ReadFile("testdata/tables.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []shown
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		t.Fatal(err)
	}
	byName := map[string]*api.Kind{}
	for _, k := range Table(api.Deps{}) {
		byName[k.Hub.String()+"/"+k.Name] = k
	}
	for _, want := range all {
		t.Run(want.Kind, func(t *testing.T) {
			k := byName[want.Kind]
			if k == nil {
				t.Fatal("no such kind")
			}
			var columns []string
			for _, c := range k.Columns {
				columns = append(columns, columnText(c))
			}
			if !slices.Equal(columns, want.Columns) {
				t.Errorf("columns\n%q, want\n%q", columns, want.Columns)
			}
			for _, row := range want.Rows {
				if got := cellsOf(t, k, row.Object); !reflect.DeepEqual(got, row.Cells) {
					t.Errorf("cells\n%q, want\n%q", got, row.Cells)
				}
			}
		})
	}
}

func columnText(c metav1.TableColumnDefinition) string {
	words := []string{strings.ReplaceAll(c.Name, " ", "_"), c.Type}
	if c.Format != "" {
		words = append(words, c.Format)
	}
	if c.Priority > 0 {
		words = append(words, "wide")
	}
	return strings.Join(words, " ")
}

// cellsOf are the cells of an object as they come out of JSON.
func cellsOf(t *testing.T, k *api.Kind, text []byte) []any {
	t.Helper()
	hub := k.HubVersion()
	obj := hub.New()
	if err := json.Unmarshal(text, obj); err != nil {
		t.Fatal(err)
	}
	if hub.Default != nil {
		hub.Default(obj)
	}
	cells, err := json.Marshal(show.At(k.Row(obj), time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)))
	if err != nil {
		t.Fatal(err)
	}
	var out []any
	if err := json.Unmarshal(cells, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRowOrder: flow schemas are shown in the order in which they are tried.
func TestRowOrder(t *testing.T) {
	for _, k := range Table(api.Deps{}) {
		if k.Resource != "flowschemas" {
			continue
		}
		var objs []api.Object
		for _, text := range []string{
			`{"metadata":{"name":"b"},"spec":{"matchingPrecedence":9}}`,
			`{"metadata":{"name":"a"},"spec":{"matchingPrecedence":9}}`,
			`{"metadata":{"name":"c"},"spec":{"matchingPrecedence":1}}`,
		} {
			obj := k.HubVersion().New()
			if err := json.Unmarshal([]byte(text), obj); err != nil {
				t.Fatal(err)
			}
			objs = append(objs, obj)
		}
		slices.SortFunc(objs, k.RowOrder)
		if names := objs[0].GetName() + objs[1].GetName() + objs[2].GetName(); names != "cab" {
			t.Errorf("order %s", names)
		}
		return
	}
	t.Fatal("no flow schemas")
}
