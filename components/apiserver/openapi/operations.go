package openapi

import (
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// operation is one verb at one path, in a form from which both versions of OpenAPI are written.
type operation struct {
	path, method       string
	id                 string
	description        string
	action             string // x-kubernetes-action; "" for what is no verb on a resource
	kind               schema.GroupVersionKind
	tag                string
	parameters         []parameter
	body               string // model of the request, "" for none
	consumes, produces []string
	response           string // model of the response; "" for any string
	codes              []string
}

// Models that are not those of kinds.
const (
	metaModel     = "io.k8s.apimachinery.pkg.apis.meta.v1."
	statusModel   = metaModel + "Status"
	patchModel    = metaModel + "Patch"
	deleteOptions = metaModel + "DeleteOptions"
	watchEvent    = metaModel + "WatchEvent"
)

// Media types of objects, of streams of them, and of patches. Custom resources have no protobuf form and no strategic
// merge.
var (
	anything    = []string{"*/*"}
	textTypes   = []string{"application/json", "application/yaml"}
	objectTypes = []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}
	streamTypes = append(slices.Clone(objectTypes), "application/json;stream=watch",
		"application/vnd.kubernetes.protobuf;stream=watch")
	patchTypes = []string{
		"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
		"application/apply-patch+yaml",
	}
	customPatchTypes = []string{"application/json-patch+json", "application/merge-patch+json",
		"application/apply-patch+yaml"}
)

func verbs(kind *api.Kind) []string {
	if kind.Verbs == nil {
		return api.AllVerbs()
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
	case "internal.apiserver.k8s.io":
		group = "apiserverinternal"
	case "apiextensions.k8s.io":
		return "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions." + kind.Version + "." + kind.Kind
	case "apiregistration.k8s.io":
		return "io.k8s.kube-aggregator.pkg.apis.apiregistration." + kind.Version + "." + kind.Kind
	}
	return "io.k8s.api." + group + "." + kind.Version + "." + kind.Kind
}

// custom tells whether a group version consists of custom resources.
func (g *groupVersion) custom() bool {
	return slices.ContainsFunc(g.kinds, func(k *api.Kind) bool { return k.Custom != nil })
}

// operations lists all of a group version.
func (g *groupVersion) operations() []operation {
	var out []operation
	if !g.custom() {
		out = append(out, g.discovery())
	}
	for _, kind := range g.kinds {
		gvk := g.WithKind(kind.Name)
		b := builder{group: g, kind: kind, gvk: gvk, model: modelOf(gvk), list: modelOf(gvk) + "List",
			objects: objectTypes, bodies: anything}
		if kind.Custom != nil {
			b.model, b.list = api.CustomModel(gvk), api.CustomModel(g.WithKind(kind.ListKind()))
			b.objects, b.bodies = textTypes, textTypes
		}
		b.resource()
		subresources := kind.SubresourcesIn(g.GroupVersion)
		for i := range subresources {
			b.subresource(&subresources[i])
		}
		if kind.Custom == nil {
			b.watches()
		}
		out = append(out, b.out...)
	}
	if g.form.CBOR && !g.custom() {
		for i := range out {
			out[i].consumes, out[i].produces = withCBOR(out[i].consumes), withCBOR(out[i].produces)
		}
	}
	return out
}

// withCBOR adds to media types what there is of CBOR beside them.
func withCBOR(media []string) []string {
	var out []string
	for _, m := range media {
		out = append(out, m)
		switch m {
		case "application/vnd.kubernetes.protobuf":
			out = append(out, "application/cbor")
		case "application/vnd.kubernetes.protobuf;stream=watch":
			out = append(out, "application/cbor-seq")
		}
	}
	if slices.Contains(media, "application/strategic-merge-patch+json") {
		out = append(out, "application/apply-patch+cbor")
	}
	return out
}

// builder collects the operations of a kind.
type builder struct {
	group           *groupVersion
	kind            *api.Kind
	gvk             schema.GroupVersionKind
	model           string
	list            string // model of its lists
	objects, bodies []string
	out             []operation
}

func (b *builder) root() string { return "/" + b.group.path() + "/" }

func (b *builder) below(root string) string {
	if b.kind.Namespaced {
		root += "namespaces/{namespace}/"
	}
	return root + b.kind.Resource
}

func (b *builder) collection() string { return b.below(b.root()) }

// scope is how ids name the place of a kind.
func (b *builder) scope() string {
	if b.kind.Namespaced {
		return "Namespaced"
	}
	return ""
}

// id makes the name of an operation: listCoreV1NamespacedPod.
func (b *builder) id(verb, infix, suffix string) string {
	return verb + b.group.idPart() + camel(infix+b.kind.Name+suffix, true)
}

// idPart is how ids name a group version.
func (g *groupVersion) idPart() string {
	return idPart(g.Group) + camel(g.Version, true)
}

func (g *groupVersion) tag() string { return groupTag(g.Group) + "_" + camel(g.Version, false) }

func idPart(group string) string { return camel(short(group), true) }

func groupTag(group string) string { return camel(short(group), false) }

// short is the name of a group in ids and tags.
func short(group string) string {
	if group == "" {
		return "core"
	}
	return strings.TrimSuffix(group, ".k8s.io")
}

// camel leaves out what names in programs can't have, dots and hyphens for instance, and writes a capital after it.
func camel(s string, capital bool) string {
	var out strings.Builder
	for i, r := range s {
		if !unicode.IsLetter(r) && r != '_' && (i == 0 || !unicode.IsDigit(r)) {
			capital = true
			continue
		}
		if capital {
			r = unicode.ToUpper(r)
		}
		out.WriteRune(r)
		capital = false
	}
	return out.String()
}

// add completes an operation: with what its path has for parameters, and what most have in common.
func (b *builder) add(o operation) {
	if o.kind.Empty() {
		o.kind = b.gvk
	}
	if o.codes == nil {
		o.codes = []string{"200"}
	}
	if o.produces == nil {
		o.produces = b.objects
	}
	if o.consumes == nil {
		o.consumes = b.bodies
	}
	if strings.Contains(o.path, "{name}") {
		o.parameters = append(o.parameters, pathName(o.kind.Kind))
	}
	if strings.Contains(o.path, "{namespace}") {
		o.parameters = append(o.parameters, pathNamespace)
	}
	if strings.Contains(o.path, "{path}") {
		o.parameters = append(o.parameters, pathRest)
	}
	if o.action != "connect" {
		o.parameters = append(o.parameters, pretty)
	}
	o.tag = b.group.tag()
	b.out = append(b.out, o)
}

// a puts the article before the name of a kind, if it has one.
func a(kind string) string {
	switch {
	case strings.HasSuffix(kind, "s") && !strings.HasSuffix(kind, "ss"):
		return kind
	case strings.ContainsRune("AEIOUaeiou", rune(kind[0])):
		return "an " + kind
	}
	return "a " + kind
}

// resource adds the verbs of the resource itself.
func (b *builder) resource() {
	has := func(verb string) bool { return slices.Contains(verbs(b.kind), verb) }
	all, one, name := b.collection(), b.collection()+"/{name}", b.kind.Name
	if has("list") {
		b.addList(all, b.id("list", b.scope(), ""), has("watch"))
		if b.kind.Namespaced {
			b.addList(b.root()+b.kind.Resource, b.id("list", "", "ForAllNamespaces"), has("watch"))
		}
	}
	if has("create") {
		b.add(operation{path: all, method: "post", id: b.id("create", b.scope(), ""), action: "post",
			description: "create " + a(name),
			parameters:  creating(), body: b.model, response: b.model, codes: []string{"200", "201", "202"}})
	}
	if has("deletecollection") {
		o := operation{path: all, method: "delete", id: b.id("delete", "Collection"+b.scope(), ""),
			action:      "deletecollection",
			description: "delete collection of " + name, parameters: append(deleting(), selecting()...),
			body: deleteOptions, response: statusModel}
		if b.kind.Custom != nil {
			o.parameters, o.body = listing(), ""
		}
		b.add(o)
	}
	if has("get") {
		b.addGet(one, "", "read the specified "+name, b.gvk, b.model)
	}
	b.change(one, has, "", name, b.gvk, b.model)
	if has("delete") {
		response := statusModel
		if s := &b.kind.Strategy; s.ReturnDeleted && !s.DocumentStatus {
			response = b.model
		}
		b.add(operation{path: one, method: "delete", id: b.id("delete", b.scope(), ""), action: "delete",
			description: "delete " + a(name),
			parameters:  deleting(), body: deleteOptions, response: response, codes: []string{"200", "202"}})
	}
}

func (b *builder) addList(path, id string, watch bool) {
	o := operation{path: path, method: "get", id: id, action: "list",
		description: "list objects of kind " + b.kind.Name,
		parameters:  listing(), response: b.list}
	if b.kind.Custom == nil {
		o.produces = streamTypes
		if watch {
			o.description = "list or watch objects of kind " + b.kind.Name
		}
	}
	b.add(o)
}

func (b *builder) addGet(path, suffix, description string, kind schema.GroupVersionKind, model string) {
	o := operation{path: path, method: "get", id: b.id("read", b.scope(), suffix), action: "get",
		description: description, kind: kind, response: model}
	if b.kind.Custom != nil {
		o.parameters = getting()
	}
	b.add(o)
}

// change adds update and patch of what.
func (b *builder) change(path string, has func(string) bool, suffix, what string, kind schema.GroupVersionKind,
	model string) {
	if has("update") {
		b.add(operation{path: path, method: "put", id: b.id("replace", b.scope(), suffix), action: "put",
			description: "replace " + specified(what, b.kind),
			kind:        kind, parameters: updating(), body: model, response: model, codes: []string{"200", "201"}})
	}
	if has("patch") {
		o := operation{path: path, method: "patch", id: b.id("patch", b.scope(), suffix), action: "patch",
			description: "partially update " + specified(what, b.kind), kind: kind, parameters: patching(),
			body:     patchModel,
			consumes: patchTypes, response: model, codes: []string{"200", "201"}}
		if b.kind.Custom != nil {
			o.consumes, o.codes = customPatchTypes, []string{"200"}
		}
		b.add(o)
	}
}

// specified speaks of a kind, or of a subresource of it.
func specified(what string, kind *api.Kind) string {
	if what == kind.Name {
		return "the specified " + what
	}
	return what + " of the specified " + kind.Name
}
