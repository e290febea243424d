package handlers

import (
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/registry"
)

// endpoint is one of the registry's, as it is served.
type endpoint struct {
	*registry.Endpoint
	verbs   []string
	shapes  []string // that its objects may be shown in
	post    Post
	connect Connect
	// outage is of the version, if it is of a custom resource.
	outage *outage
}

// serves makes what serves an endpoint of the registry.
func (a *API) serves(ep *registry.Endpoint) *endpoint {
	out := &endpoint{Endpoint: ep, verbs: ep.Kind.Verbs, shapes: shapes(ep.Kind, ep.Version), outage: &outage{}}
	if sub := ep.Sub; sub != nil {
		full := ep.Kind.Resource + "/" + sub.Name
		out.verbs, out.post, out.connect = sub.Verbs, a.config.Posts[full], a.config.Connects[full]
		if ep.IsAction() || sub.NoTable {
			out.shapes = []string{negotiate.Metadata, negotiate.MetadataList}
		}
	} else if out.verbs == nil {
		out.verbs = api.AllVerbs()
	}
	return out
}

// shapes are those in which objects of a kind may be shown: there is no Table of what has no columns.
func shapes(kind *api.Kind, v *api.Version) []string {
	out := []string{negotiate.Metadata, negotiate.MetadataList}
	if kind.Row != nil || v.Row != nil {
		out = append(out, negotiate.Table)
	}
	return out
}
