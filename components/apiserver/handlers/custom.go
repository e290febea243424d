package handlers

import (
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/registry"
)

// customEndpoints are the endpoints to custom resources. They are replaced as a whole.
type customEndpoints struct {
	endpoints map[registry.Key]*endpoint
	served    map[schema.GroupVersion]bool
}

// toCustom returns the endpoints to custom resources, nil if there are none, and the main one to the resource of a
// request, if any. What lies behind that one works until leave is called, whatever is installed meanwhile; only watches
// end with it.
func (a *API) toCustom(
	gv schema.GroupVersion, info *request.RequestInfo,
) (endpoints *customEndpoints, main *endpoint, leave func()) {
	for {
		endpoints = a.custom.Load()
		if endpoints == nil {
			return nil, nil, func() {}
		}
		main = endpoints.endpoints[registry.Key{GroupVersion: gv, Resource: info.Resource}]
		if main == nil || info.Verb == "watch" {
			return endpoints, main, func() {}
		}
		if main.Cache.Enter() {
			return endpoints, main, main.Cache.Leave
		} // else others have been installed since
	}
}

// Install replaces the custom resources that are served beside the kinds of the program. Requests that are under way
// end as they began, if the caches of what was replaced are removed afterwards. It must not be called concurrently.
func (a *API) Install(resources []registry.Resource) {
	before := a.custom.Load()
	now := &customEndpoints{endpoints: map[registry.Key]*endpoint{}, served: map[schema.GroupVersion]bool{}}
	for key, ep := range a.config.Registry.Install(resources) {
		now.served[key.GroupVersion] = now.served[key.GroupVersion] || !ep.Version.Unserved
		if before != nil && before.endpoints[key] != nil && before.endpoints[key].Endpoint == ep {
			now.endpoints[key] = before.endpoints[key] // which remembers outages
			continue
		}
		now.endpoints[key] = a.serves(ep)
	}
	a.custom.Store(now)
}

// decoded reads a body. What a Go type does to content that it doesn't know, the schema of a custom resource does here.
func (d *decoder) decoded(
	body []byte, media codec.MediaType, want *schema.GroupVersionKind, into runtime.Object, strict bool,
) (runtime.Object, *schema.GroupVersionKind, error) {
	got, gvk, err := d.api.config.Codec.Decode(body, media, want, into, strict)
	u, ok := got.(*unstructured.Unstructured)
	if !ok || d.Version.Coerce == nil || (err != nil && !runtime.IsStrictDecodingError(err)) {
		return got, gvk, err
	}
	var problems []error
	if s, ok := runtime.AsStrictDecodingError(err); ok {
		problems = s.Errors()
	}
	unknown, err := d.Version.Coerce(u, false)
	if err != nil {
		return nil, gvk, err
	}
	for _, path := range unknown {
		problems = append(problems, errors.New(`unknown field "`+path+`"`)) // as it is: nothing in it is escaped
	}
	if strict && len(problems) > 0 && media != codec.CBOR { // of which upstream doesn't ask
		return got, gvk, runtime.NewStrictDecodingError(problems)
	}
	return got, gvk, nil
}

// isCustom tells whether obj came through this endpoint as a custom resource does, whatever its kind.
func (d *decoder) isCustom(obj runtime.Object) bool {
	_, free := obj.(*unstructured.Unstructured)
	return free && d.Version.Coerce != nil
}

// misnamed notes that a custom resource was written as an object of another kind or version than the request's, and
// returns the version by whose rules it is completed: nil if there is no such version. Unknown fields have not been
// checked against the schema then. What is written to the status becomes an object of the right kind; everything else
// is left to validation.
func (d *decoder) misnamed(obj runtime.Object, gvk schema.GroupVersionKind) *api.Version {
	v := d.Kind.Readable(gvk.GroupVersion())
	known, renamed := v != nil && gvk.Kind == d.Kind.Name, d.OnlyStatus() && gvk.Version != ""
	if renamed {
		obj.GetObjectKind().SetGroupVersionKind(d.GVK)
	}
	if !known || !renamed {
		d.SubmittedGroupKind, d.MayHaveUnknownFields = new(gvk.GroupKind()), true
	}
	if !known {
		return &api.Version{}
	}
	return v
}
