package strictyaml

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type spec struct {
	Name  string            `json:"name"`
	Count *int              `json:"count"`
	On    bool              `json:"on"`
	Map   map[string]string `json:"map"`
	List  []inner           `json:"list"`
	Some  oneOrMany         `json:"some"`
	Seed  uint64            `json:"seed"`
	Part  float64           `json:"part"`
	Wait  metav1.Duration   `json:"wait"`
}

type inner struct {
	A string `json:"a"`
}

// oneOrMany is a string, or a list of them.
type oneOrMany []string

func (o *oneOrMany) DecodeYAML(d *Decoder, path string, node *yaml.Node) {
	if node.Kind == yaml.ScalarNode {
		*o = oneOrMany{""}
		d.Value(path, node, &(*o)[0])
		return
	}
	d.Value(path, node, (*[]string)(o))
}

func TestDecode(t *testing.T) {
	var got spec
	_, err := Decode("f", []byte("name: x\ncount: 3\non: true\nmap: {k: v}\nlist:\n- &e {a: b}\n- *e\n- \nsome: [p, q]\n"+
		"seed: 18446744073709551615\npart: 1\nwait: 2s\n"),
		&got)
	three := 3
	want := spec{"x", &three, true, map[string]string{"k": "v"}, []inner{{"b"}, {"b"}, {}}, oneOrMany{"p", "q"},
		math.MaxUint64, 1, metav1.Duration{Duration: 2 * time.Second}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestMistakes(t *testing.T) {
	for content, want := range map[string]string{
		"":                      "f: the file is empty",
		"name: a\n---\nname: b": "f: there is more than one document",
		"- a":                   "f:1: want a mapping (KEY: VALUE), got a list",
		"name: x\nnam: y": "f:2: nam: there is no such field; there are name, count, on, map, list, some, " +
			"seed, part, wait",
		"name: x\n\nname: y":            "f:3: name: it is given twice, first in line 1",
		"name: 1":                       "f:1: name: want a string, got the number 1; put it into quotes",
		"count: x":                      "f:1: count: want a whole number, got a string",
		"count: 99999999999999999999":   "f:1: count: want a whole number, got the number",
		"on: maybe":                     "f:1: on: want true or false, got a string",
		"name: {}":                      "f:1: name: want a string, got a mapping",
		"map:\n  a: b\n  c: true":       "f:3: map.c: want a string, got the boolean true",
		"map: {a: b, a: c}":             "f:1: map.a: it is given twice, first in line 1",
		"list: x":                       "f:1: list: want a list, got a string",
		"list:\n- a: b\n- a: b\n  c: d": "f:4: list[1].c: there is no such field; there are a",
		"some:\n- a\n- 1":               "f:3: some[1]: want a string",
		"seed: -1":                      "f:1: seed: want a whole number of at least 0, got -1",
		"part: much":                    "f:1: part: want a number, got a string",
		"wait: 2":                       "f:1: wait: want a string, got the number 2",
		"wait: soon":                    "f:1: wait: time: invalid duration",
		"name: [":                       "f: yaml: line 1",
	} {
		_, err := Decode("f", []byte(content), &spec{})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", content, err, want)
		}
	}
}

// TestAllMistakes: one run names all of them.
func TestAllMistakes(t *testing.T) {
	_, err := Decode("f", []byte("name: 1\ncount: x\nlist: [{b: c}]"), &spec{})
	if err == nil || len(strings.Split(err.Error(), "\n")) != 3 {
		t.Errorf("%v", err)
	}
}

// TestLines: what is found wrong later has the line of its field, or of the nearest that is there.
func TestLines(t *testing.T) {
	d, err := Decode("f", []byte("name: x\nlist:\n- a: b\n"), &spec{})
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for path, want := range map[string]string{
		"list[0].a": "f:3: list[0].a: broken", "list[0].z": "f:3: list[0].z: broken", "list[7]": "f:2: list[7]: broken",
		"none": "f:1: none: broken",
	} {
		if err := d.At(path, broken); err.Error() != want || !errors.Is(err, broken) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
