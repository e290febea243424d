// Package strictyaml decodes YAML into Go values, and names the line and the path of each field that is wrong: one that
// is unknown or given twice, or whose value is of another type. Nothing is converted: a number is no string.
package strictyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Error is what is wrong with one field.
type Error struct {
	File string // as it was given to Decode
	Line int    // counts from 1; 0 if it is unknown
	Path string // e.g. nodes[0].labels; empty for the document as a whole
	Err  error
}

// Error is FILE:LINE: PATH: what is wrong.
func (e *Error) Error() string {
	var out strings.Builder
	out.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&out, ":%d", e.Line)
	}
	if e.Path != "" {
		fmt.Fprintf(&out, ": %s", e.Path)
	}
	return out.String() + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Unmarshaler is a value whose form in YAML is not that of its Go type. It decodes parts of itself with d.Value, and
// reports what is wrong with d.Fail.
type Unmarshaler interface {
	DecodeYAML(d *Decoder, path string, node *yaml.Node)
}

// Decoder decodes one document. It remembers the lines of its fields.
type Decoder struct {
	file  string
	lines map[string]int
	errs  []error
}

// Decode decodes a file of one document into the struct that into points to: fields by their json tags, structs,
// pointers, slices, maps of strings, strings, numbers, booleans, and what JSON has as strings. All
// errors are returned, joined.
func Decode(file string, content []byte, into any) (*Decoder, error) {
	d := &Decoder{file: file, lines: map[string]int{}}
	reader := yaml.NewDecoder(bytes.NewReader(content))
	var document yaml.Node
	if err := reader.Decode(&document); errors.Is(err, io.EOF) {
		return d, d.At("", errors.New("the file is empty"))
	} else if err != nil {
		return d, d.At("", err)
	}
	if err := reader.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return d, d.At("", errors.New("there is more than one document; a file has one"))
	}
	d.Value("", document.Content[0], into)
	return d, errors.Join(d.errs...)
}

// At makes err the error of a field, by its path. A field that is not in the file has the line of the one it belongs
// to.
func (d *Decoder) At(path string, err error) error {
	where := path
	for d.lines[where] == 0 && where != "" {
		where = where[:max(0, strings.LastIndexAny(where, ".["))]
	}
	return &Error{File: d.file, Line: d.lines[where], Path: path, Err: err}
}

// Fail reports what is wrong at a node.
func (d *Decoder) Fail(path string, node *yaml.Node, format string, args ...any) {
	d.errs = append(d.errs, &Error{File: d.file, Line: node.Line, Path: path, Err: fmt.Errorf(format, args...)})
}

// Value decodes a node into what into points to. A node that is null leaves the zero value.
func (d *Decoder) Value(path string, node *yaml.Node, into any) {
	d.value(path, node, reflect.ValueOf(into).Elem())
}

func (d *Decoder) value(path string, node *yaml.Node, v reflect.Value) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if _, known := d.lines[path]; !known {
		d.lines[path] = node.Line
	}
	if node.Tag == "!!null" {
		return
	}
	if custom, ok := v.Addr().Interface().(Unmarshaler); ok {
		custom.DecodeYAML(d, path, node)
		return
	}
	if text, ok := v.Addr().Interface().(json.Unmarshaler); ok {
		d.text(path, node, text)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(path, node, v.Elem())
	case reflect.Struct:
		d.fields(path, node, v)
	case reflect.Slice:
		d.list(path, node, v)
	case reflect.Map:
		d.entries(path, node, v)
	default:
		d.scalar(path, node, v)
	}
}

// mapping calls each for the keys of a mapping, which differ.
func (d *Decoder) mapping(path string, node *yaml.Node, each func(key string, at, value *yaml.Node)) {
	if node.Kind != yaml.MappingNode {
		d.Fail(path, node, "want a mapping (KEY: VALUE), got %s", kind(node))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		at, value := node.Content[i], node.Content[i+1]
		if line, twice := seen[at.Value]; twice {
			d.Fail(join(path, at.Value), at, "it is given twice, first in line %d", line)
			continue
		}
		seen[at.Value] = at.Line
		d.lines[join(path, at.Value)] = at.Line
		each(at.Value, at, value)
	}
}

func (d *Decoder) fields(path string, node *yaml.Node, v reflect.Value) {
	fields := map[string]int{}
	var names []string
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		fields[name] = i
		names = append(names, name)
	}
	d.mapping(path, node, func(key string, at, value *yaml.Node) {
		i, ok := fields[key]
		if !ok {
			d.Fail(join(path, key), at, "there is no such field; there are %s", strings.Join(names, ", "))
			return
		}
		d.value(join(path, key), value, v.Field(i))
	})
}

func (d *Decoder) entries(path string, node *yaml.Node, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	d.mapping(path, node, func(key string, _, value *yaml.Node) {
		element := reflect.New(v.Type().Elem()).Elem()
		d.value(join(path, key), value, element)
		v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), element)
	})
}

func (d *Decoder) list(path string, node *yaml.Node, v reflect.Value) {
	if node.Kind != yaml.SequenceNode {
		d.Fail(path, node, "want a list, got %s", kind(node))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(node.Content), len(node.Content)))
	for i, element := range node.Content {
		d.value(path+"["+strconv.Itoa(i)+"]", element, v.Index(i))
	}
}

// text decodes a string into a value that JSON has as one, such as a duration.
func (d *Decoder) text(path string, node *yaml.Node, into json.Unmarshaler) {
	var content string
	before := len(d.errs)
	d.scalar(path, node, reflect.ValueOf(&content).Elem())
	if len(d.errs) > before {
		return
	}
	quoted, err := json.Marshal(content)
	if err == nil {
		err = into.UnmarshalJSON(quoted)
	}
	if err != nil {
		d.Fail(path, node, "%w", err)
	}
}

func (d *Decoder) scalar(path string, node *yaml.Node, v reflect.Value) {
	wants := map[reflect.Kind]string{reflect.String: "!!str", reflect.Int: "!!int", reflect.Uint64: "!!int",
		reflect.Float64: "!!float", reflect.Bool: "!!bool"}
	want, ok := wants[v.Kind()]
	if !ok {
		panic(fmt.Sprintf("strictyaml: %s: no YAML is decoded into %s", path, v.Type()))
	}
	switch {
	case node.Kind == yaml.ScalarNode && v.Kind() == reflect.Uint64 && strings.HasPrefix(node.Value, "-"):
		d.Fail(path, node, "want a whole number of at least 0, got %s", node.Value)
	case node.Kind == yaml.ScalarNode && (node.Tag == want || want == "!!float" && node.Tag == "!!int"):
		if err := node.Decode(v.Addr().Interface()); err != nil {
			d.Fail(path, node, "%w", err)
		}
	case node.Kind == yaml.ScalarNode && want == "!!str":
		d.Fail(path, node, "want a string, got %s %s; put it into quotes", kind(node), node.Value)
	default:
		names := map[string]string{"!!str": "a string", "!!int": "a whole number", "!!float": "a number",
			"!!bool": "true or false"}
		d.Fail(path, node, "want %s, got %s", names[want], kind(node))
	}
}

// kind is what a node is, in words.
func kind(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	tags := []string{"!!str", "a string", "!!int", "the number", "!!float", "the number", "!!bool", "the boolean"}
	if i := slices.Index(tags, node.Tag); i >= 0 {
		return tags[i+1]
	}
	return "a value of type " + node.Tag
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
