package openapi

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds"
)

// operation is one verb at one path, in a form from which both versions of OpenAPI are written.
type operation struct {
	path, method string
	id           string
	description  string
	action       string // x-kubernetes-action
	kind         schema.GroupVersionKind
	tag          string
	query        []parameter
	body         string // model of the request, "" for none
	patch        bool   // the body is a patch
	text         bool   // there is no protobuf form, and no strategic merge
	response     string // model of the response; "" for any string
	watch        bool   // the response may be a stream
	codes        []string
}

// parameter is one of the query or of the path.
type parameter struct {
	name, kind, description string
	inPath                  bool
}

// Models that are not those of kinds.
const (
	metaModel     = "io.k8s.apimachinery.pkg.apis.meta.v1."
	statusModel   = metaModel + "Status"
	patchModel    = metaModel + "Patch"
	deleteOptions = metaModel + "DeleteOptions"
)

func query(name, kind, description string) parameter {
	return parameter{name: name, kind: kind, description: description}
}

var (
	pretty = query("pretty", "string", "Writes the response for people to read, if 'true'.")

	pathName      = parameter{"name", "string", "The name of the object.", true}
	pathNamespace = parameter{"namespace", "string", "The namespace of the objects.", true}
	pathRest      = parameter{"path", "string", "The path of the request that is passed on.", true}

	selecting = []parameter{
		query("continue", "string", "The token of an earlier page of this list."),
		query("fieldSelector", "string", "Chooses objects by their fields."),
		query("labelSelector", "string", "Chooses objects by their labels."),
		query("limit", "integer", "The number of objects on a page."),
		query("resourceVersion", "string", "The version of the state that is asked for; see the API concepts page."),
		query("resourceVersionMatch", "string", "How resourceVersion is meant: Exact or NotOlderThan."),
		query("sendInitialEvents", "boolean", "Begins a watch with the objects that exist and a bookmark after them."),
		query("timeoutSeconds", "integer", "How long a list or watch may take."),
	}
	watching = append([]parameter{
		query("allowWatchBookmarks", "boolean", "Allows events that tell only a resource version."),
		query("watch", "boolean", "Watches the objects instead of listing them."),
	}, selecting...)
	dryRun  = query("dryRun", "string", "Goes through all stages but the last, if 'All'.")
	writing = []parameter{
		dryRun,
		query("fieldManager", "string", "The name of the one who makes the change."),
		query("fieldValidation", "string", "What unknown and duplicate fields do: Ignore, Warn or Strict."),
	}
	applying = append([]parameter{
		query("force", "boolean", "Takes fields over from other managers; for apply only."),
	}, writing...)
	deleting = []parameter{
		dryRun,
		query("gracePeriodSeconds", "integer", "How long the object may take to end; zero means at once."),
		query("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean", "Removes an object that can't be read any more."),
		query("orphanDependents", "boolean", "Leaves dependents alone; propagationPolicy replaces it."),
		query("propagationPolicy", "string", "What becomes of dependents: Orphan, Background or Foreground."),
	}
)

func verbs(kind *kinds.Kind) []string {
	if kind.Verbs == nil {
		return kinds.AllVerbs()
	}
	return kind.Verbs
}

// modelOf names the schema of a kind, as k8s.io/api does.
func modelOf(kind schema.GroupVersionKind) string {
	group, _, _ := strings.Cut(kind.Group, ".")
	if group == "" {
		group = "core"
	}
	switch kind.Group {
	case "apiextensions.k8s.io":
		return "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions." + kind.Version + "." + kind.Kind
	case "apiregistration.k8s.io":
		return "io.k8s.kube-aggregator.pkg.apis.apiregistration." + kind.Version + "." + kind.Kind
	}
	return "io.k8s.api." + group + "." + kind.Version + "." + kind.Kind
}

// operations lists all of a group version.
func (g *groupVersion) operations() []operation {
	var out []operation
	for _, kind := range g.kinds {
		gvk := g.WithKind(kind.Name)
		b := builder{group: g, kind: kind, gvk: gvk, model: modelOf(gvk), list: modelOf(gvk) + "List"}
		if kind.Custom != nil {
			b.model, b.list = kinds.CustomModel(gvk), kinds.CustomModel(g.WithKind(kind.ListKind()))
		}
		b.resource()
		subresources := kind.SubresourcesIn(g.GroupVersion)
		for i := range subresources {
			b.subresource(&subresources[i])
		}
		out = append(out, b.out...)
	}
	return out
}

// builder collects the operations of a kind.
type builder struct {
	group *groupVersion
	kind  *kinds.Kind
	gvk   schema.GroupVersionKind
	model string
	list  string // model of its lists
	out   []operation
}

func (b *builder) collection() string {
	root := "/" + b.group.path() + "/"
	if b.kind.Namespaced {
		root += "namespaces/{namespace}/"
	}
	return root + b.kind.Resource
}

// scope is how ids name the place of a kind.
func (b *builder) scope() string {
	if b.kind.Namespaced {
		return "Namespaced"
	}
	return ""
}

// id makes the name of an operation: listCoreV1NamespacedPod.
func (b *builder) id(verb, infix, suffix string) string {
	return verb + idPart(b.group.Group) + strings.ToUpper(b.group.Version[:1]) + b.group.Version[1:] + infix + b.kind.Name + suffix
}

func idPart(group string) string {
	group = strings.TrimSuffix(group, ".k8s.io")
	if group == "" {
		group = "core"
	}
	var out strings.Builder
	for part := range strings.SplitSeq(group, ".") {
		out.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return out.String()
}

func (b *builder) add(o operation) {
	if o.kind.Empty() {
		o.kind = b.gvk
	}
	o.text = b.kind.Custom != nil
	if o.codes == nil {
		o.codes = []string{"200"}
	}
	o.tag = strings.ToLower(idPart(b.group.Group)[:1]) + idPart(b.group.Group)[1:] + "_" + b.group.Version
	b.out = append(b.out, o)
}

// resource adds the verbs of the resource itself.
func (b *builder) resource() {
	has := func(verb string) bool { return slices.Contains(verbs(b.kind), verb) }
	all, one, name := b.collection(), b.collection()+"/{name}", b.kind.Name
	list := b.list
	if has("list") {
		b.add(operation{path: all, method: "get", id: b.id("list", b.scope(), ""), action: "list", description: "list or watch " + name + " objects",
			query: watching, response: list, watch: true})
		if b.kind.Namespaced {
			b.add(operation{path: "/" + b.group.path() + "/" + b.kind.Resource, method: "get", id: b.id("list", "", "ForAllNamespaces"), action: "list",
				description: "list or watch " + name + " objects of all namespaces", query: watching, response: list, watch: true})
		}
	}
	if has("create") {
		b.add(operation{path: all, method: "post", id: b.id("create", b.scope(), ""), action: "post", description: "create a " + name,
			query: writing, body: b.model, response: b.model, codes: []string{"200", "201", "202"}})
	}
	if has("deletecollection") {
		b.add(operation{path: all, method: "delete", id: b.id("delete", "Collection"+b.scope(), ""), action: "deletecollection",
			description: "delete all chosen " + name + " objects", query: append(slices.Clone(deleting), selecting...), body: deleteOptions, response: statusModel})
	}
	if has("get") {
		b.add(operation{path: one, method: "get", id: b.id("read", b.scope(), ""), action: "get", description: "read a " + name, response: b.model})
	}
	b.change(one, has, "", b.gvk, b.model)
	if has("delete") {
		b.add(operation{path: one, method: "delete", id: b.id("delete", b.scope(), ""), action: "delete", description: "delete a " + name,
			query: deleting, body: deleteOptions, response: statusModel, codes: []string{"200", "202"}})
	}
}

// change adds update and patch.
func (b *builder) change(path string, has func(string) bool, suffix string, kind schema.GroupVersionKind, model string) {
	if has("update") {
		b.add(operation{path: path, method: "put", id: b.id("replace", b.scope(), suffix), action: "put", description: "replace a " + b.kind.Name + suffix,
			kind: kind, query: writing, body: model, response: model, codes: []string{"200", "201"}})
	}
	if has("patch") {
		b.add(operation{path: path, method: "patch", id: b.id("patch", b.scope(), suffix), action: "patch", description: "change parts of a " + b.kind.Name + suffix,
			kind: kind, query: applying, body: patchModel, patch: true, response: model, codes: []string{"200", "201"}})
	}
}

// connections are the subresources that pass a connection on; their options are in the query.
var connections = []string{"attach", "exec", "portforward", "proxy"}

func (b *builder) subresource(sub *kinds.Subresource) {
	path := b.collection() + "/{name}/" + sub.Name
	suffix := strings.ToUpper(sub.Name[:1]) + sub.Name[1:]
	has := func(verb string) bool { return slices.Contains(sub.Verbs, verb) }
	if slices.Contains(connections, sub.Name) {
		b.connect(path, suffix, sub)
		return
	}
	kind, model := b.gvk, b.model
	if !sub.Body.Empty() {
		kind, model = sub.Body, modelOf(sub.Body)
	}
	if sub.Name == "log" {
		model = ""
	}
	if has("get") {
		b.add(operation{path: path, method: "get", id: b.id("read", b.scope(), suffix), action: "get",
			description: "read " + sub.Name + " of a " + b.kind.Name, kind: kind, response: model})
	}
	if has("create") {
		b.add(operation{path: path, method: "post", id: b.id("create", b.scope(), suffix), action: "post",
			description: "create " + sub.Name + " of a " + b.kind.Name, kind: kind, query: writing, body: model, response: model,
			codes: []string{"200", "201", "202"}})
	}
	b.change(path, has, suffix, kind, model)
}

// methods are those of HTTP for the verbs of a connection.
var methods = map[string][]string{"get": {"get", "head", "options"}, "create": {"post"}, "update": {"put"}, "patch": {"patch"}, "delete": {"delete"}}

func (b *builder) connect(path, suffix string, sub *kinds.Subresource) {
	kind := b.group.WithKind(b.kind.Name + suffix + "Options")
	if sub.Name == "portforward" {
		kind.Kind = b.kind.Name + "PortForwardOptions"
	}
	paths := map[string]string{path: ""}
	if sub.Name == "proxy" {
		paths[path+"/{path}"] = "WithPath"
	}
	for _, verb := range sub.Verbs {
		for _, method := range methods[verb] {
			for at, with := range paths {
				id := b.id("connect", strings.ToUpper(method[:1])+method[1:]+b.scope(), suffix+with)
				b.add(operation{path: at, method: method, id: id, action: "connect", kind: kind,
					description: "connect to " + sub.Name + " of a " + b.kind.Name})
			}
		}
	}
}

// pathParameters are those that a path names.
func pathParameters(path string) []parameter {
	var out []parameter
	for _, p := range []parameter{pathName, pathNamespace, pathRest} {
		if strings.Contains(path, "{"+p.name+"}") {
			out = append(out, p)
		}
	}
	return out
}
