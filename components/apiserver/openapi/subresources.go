package openapi

import (
	"slices"
	"strings"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// connections are the subresources that pass a connection on; their options are in the query.
var connections = []string{"attach", "exec", "portforward", "proxy"}

func (b *builder) subresource(sub *api.Subresource) {
	path := b.collection() + "/{name}/" + sub.Name
	suffix := strings.ToUpper(sub.Name[:1]) + sub.Name[1:]
	has := func(verb string) bool { return slices.Contains(sub.Verbs, verb) }
	switch {
	case slices.Contains(connections, sub.Name):
		b.connect(path, suffix, sub)
		return
	case sub.Name == "log":
		b.add(operation{path: path, method: "get", id: b.id("read", b.scope(), suffix), action: "get",
			description: "read log of the specified " + b.kind.Name, parameters: connecting(b.kind.Name + "LogOptions"),
			produces: append([]string{"text/plain"}, objectTypes...)})
		return
	}
	kind, model := b.gvk, b.model
	if !sub.Body.Empty() {
		kind, model = sub.Body, modelOf(sub.Body)
		if b.kind.Custom != nil {
			kind = b.gvk // as upstream's documents have it
		}
	}
	if has("get") {
		b.addGet(path, suffix, "read "+sub.Name+" of the specified "+b.kind.Name, kind, model)
	}
	if has("create") {
		b.add(operation{path: path, method: "post", id: b.id("create", b.scope(), suffix), action: "post",
			description: "create " + sub.Name + " of " + a(b.kind.Name), kind: kind, parameters: creating(),
			body: model, response: model,
			codes: []string{"200", "201", "202"}})
	}
	b.change(path, has, suffix, sub.Name, kind, model)
}

// methods are those of HTTP for the verbs of a connection. A proxy has all of them.
var methods = map[string][]string{"get": {"get"}, "create": {"post"}, "update": {"put"}, "patch": {"patch"},
	"delete": {"delete"}}

func (b *builder) connect(path, suffix string, sub *api.Subresource) {
	kind := b.group.WithKind(b.kind.Name + suffix + "Options")
	if sub.Name == "portforward" {
		kind.Kind = b.kind.Name + "PortForwardOptions"
	}
	paths := []string{path}
	var all []string
	for _, verb := range sub.Verbs {
		all = append(all, methods[verb]...)
	}
	if sub.Name == "proxy" {
		paths = append(paths, path+"/{path}")
		all = append(all, "head", "options")
	}
	for _, at := range paths {
		with := ""
		if at != path {
			with = "WithPath"
		}
		for _, method := range all {
			b.add(operation{path: at, method: method,
				id:     b.id("connect", strings.ToUpper(method[:1])+method[1:]+b.scope(), suffix+with),
				action: "connect", kind: kind,
				description: "connect " + strings.ToUpper(method) + " requests to " + sub.Name + " of " +
					b.kind.Name,
				parameters: connecting(kind.Kind), produces: anything})
		}
	}
}

// watches adds the paths of old that only watch.
func (b *builder) watches() {
	if !slices.Contains(verbs(b.kind), "watch") {
		return
	}
	const instead = "deprecated: use the 'watch' parameter with a list operation instead"
	add := func(path, id, action, description string) {
		b.add(operation{path: path, method: "get", id: id, action: action, description: description,
			parameters: listing(),
			produces:   streamTypes, response: watchEvent})
	}
	list := "watch individual changes to a list of " + b.kind.Name + ". " + instead + "."
	all := b.below(b.root() + "watch/")
	add(all, b.id("watch", b.scope(), "List"), "watchlist", list)
	if b.kind.Namespaced {
		add(b.root()+"watch/"+b.kind.Resource, b.id("watch", "", "ListForAllNamespaces"), "watchlist", list)
	}
	if slices.Contains(verbs(b.kind), "get") {
		add(all+"/{name}", b.id("watch", b.scope(), ""), "watch",
			"watch changes to an object of kind "+b.kind.Name+". "+instead+
				", filtered to a single item with the 'fieldSelector' parameter.")
	}
}
