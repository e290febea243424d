package openapi

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// parameter is one of the query or of the path.
type parameter struct {
	name, kind, description string
	inPath                  bool
}

var (
	pretty = parameter{name: "pretty", kind: "string",
		description: "If 'true', then the output is pretty printed. Defaults to " +
			"'false' unless the user-agent indicates a browser or command-line HTTP tool (curl and wget)."}
	pathNamespace = parameter{name: "namespace", kind: "string", inPath: true,
		description: "object name and auth scope, such as for teams and projects"}
	pathRest = parameter{name: "path", kind: "string", inPath: true, description: "path to the resource"}
)

func pathName(kind string) parameter {
	return parameter{name: "name", kind: "string", inPath: true, description: "name of the " + kind}
}

// described are the types of the API whose fields are parameters.
type described interface{ SwaggerDoc() map[string]string }

// options are those of the verbs, made at first use.
func getting() []parameter  { return parametersOf(metav1.GetOptions{}) }
func listing() []parameter  { return parametersOf(metav1.ListOptions{}) }
func creating() []parameter { return parametersOf(metav1.CreateOptions{}) }
func updating() []parameter { return parametersOf(metav1.UpdateOptions{}) }
func patching() []parameter { return parametersOf(metav1.PatchOptions{}) }
func deleting() []parameter { return parametersOf(metav1.DeleteOptions{}) }

// selecting are the options that choose what deletecollection takes.
func selecting() []parameter {
	return slices.DeleteFunc(listing(),
		func(p parameter) bool { return p.name == "watch" || p.name == "allowWatchBookmarks" })
}

// connecting are the options of the subresources that take over the connection, by their kind, and those of log.
func connecting(kind string) []parameter {
	of := map[string]described{
		"PodAttachOptions": corev1.PodAttachOptions{}, "PodExecOptions": corev1.PodExecOptions{},
		"PodPortForwardOptions": corev1.PodPortForwardOptions{}, "PodLogOptions": corev1.PodLogOptions{},
		"PodProxyOptions": corev1.PodProxyOptions{}, "ServiceProxyOptions": corev1.ServiceProxyOptions{},
		"NodeProxyOptions": corev1.NodeProxyOptions{},
	}[kind]
	if of == nil {
		return nil
	}
	return parametersOf(of)
}

// parametersOf reads the parameters out of a type of options: its fields that are no structures, with what it says of
// them.
func parametersOf(options described) []parameter {
	doc := options.SwaggerDoc()
	var out []parameter
	t := reflect.TypeOf(options)
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		kind := jsonType(field.Type)
		if name == "" || kind == "" {
			continue
		}
		out = append(out, parameter{name: name, kind: kind, description: doc[name]})
	}
	return out
}

// jsonType is what a value of a query is in OpenAPI; "" for what can't be in one. A list is told as its elements are.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return jsonType(t.Elem())
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "integer"
	case reflect.String:
		return "string"
	}
	return ""
}

func (p parameter) place() string {
	if p.inPath {
		return "path"
	}
	return "query"
}

func byName(a, b parameter) int {
	return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.place(), b.place()))
}

// common takes the parameters that all operations of a path have out of them.
func common(operations []*operation) []parameter {
	type key struct {
		name   string
		inPath bool
	}
	count, last := map[key]int{}, map[key]parameter{}
	for _, o := range operations {
		for _, p := range o.parameters {
			k := key{p.name, p.inPath}
			count[k]++
			last[k] = p
		}
	}
	var out []parameter
	for k, n := range count {
		if n == len(operations) {
			out = append(out, last[k])
		}
	}
	slices.SortFunc(out, byName)
	for _, o := range operations {
		o.parameters = slices.DeleteFunc(o.parameters,
			func(p parameter) bool { return count[key{p.name, p.inPath}] == len(operations) })
		slices.SortFunc(o.parameters, byName)
	}
	return out
}

// v3 is the parameter as OpenAPI v3.
func (p parameter) v3() object {
	out := object{"name": p.name, "in": p.place(), "schema": object{"type": p.kind, "uniqueItems": true}}
	if p.description != "" {
		out["description"] = p.description
	}
	if p.inPath {
		out["required"] = true
	}
	return out
}

func parametersV3(ps []parameter) []object {
	out := make([]object, len(ps))
	for i, p := range ps {
		out[i] = p.v3()
	}
	return out
}

// shared are the parameters that OpenAPI v2 tells once for all operations, by their names there.
type shared map[string]json.RawMessage

// add returns what stands for a parameter: a reference, or the parameter itself if it is one of those that clients look
// for in the operations.
func (s shared) add(p spec.Parameter) (any, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	switch {
	case p.In == "body" && !strings.HasPrefix(p.Schema.Ref.String(), "#/definitions/io.k8s.apimachinery"),
		p.Name == "name", p.In == "query" && (p.Name == "fieldValidation" || p.Name == "dryRun"):
		return json.RawMessage(text), nil
	}
	sum := fnv.New64()
	_, _ = sum.Write(text)
	name := p.Name + "-" + base64.URLEncoding.EncodeToString(sum.Sum(nil)[:6])
	s[name] = text
	return object{"$ref": "#/parameters/" + name}, nil
}

// list writes the parameters, and the body if there is one, sorted by name.
func (s shared) list(ps []parameter, body *spec.Parameter) ([]any, error) {
	all := make([]spec.Parameter, 0, len(ps)+1)
	for _, p := range ps {
		one := spec.Parameter{ParamProps: spec.ParamProps{Name: p.name, In: p.place(), Description: p.description,
			Required: p.inPath}}
		one.UniqueItems, one.Type = true, p.kind
		all = append(all, one)
	}
	if body != nil {
		all = append(all, *body)
	}
	slices.SortFunc(all, func(a, b spec.Parameter) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.In, b.In))
	})
	out := make([]any, len(all))
	for i := range all {
		var err error
		if out[i], err = s.add(all[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
