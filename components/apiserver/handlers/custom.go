package handlers

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/serial"
)

// customEndpoints are the endpoints to custom resources. They are replaced as a whole.
type customEndpoints struct {
	resources map[Resource]bool
	endpoints map[doorKey]*endpoint
	served    map[schema.GroupVersion]bool
	local     map[schema.GroupResource]*endpoint // to the stored versions
	kinds     map[schema.GroupVersionKind]*kinds.Kind
}

// toCustom returns the endpoints to custom resources, nil if there are none, and the main one to the resource of a request, if
// any. What lies behind that one works until leave is called, whatever is installed meanwhile; only watches end with it.
func (a *API) toCustom(gv schema.GroupVersion, info *request.RequestInfo) (endpoints *customEndpoints, main *endpoint, leave func()) {
	for {
		endpoints = a.custom.Load()
		if endpoints == nil {
			return nil, nil, func() {}
		}
		main = endpoints.endpoints[doorKey{gv, info.Resource, ""}]
		if main == nil || info.Verb == "watch" {
			return endpoints, main, func() {}
		}
		if main.cache.Enter() {
			return endpoints, main, main.cache.Leave
		} // else others have been installed since
	}
}

// Install replaces the custom resources that are served beside the kinds of the program. Requests that are under way end
// as they began, if the caches of what was replaced are removed afterwards. It must not be called concurrently.
func (a *API) Install(resources []Resource) {
	before := a.custom.Load()
	now := &customEndpoints{
		resources: map[Resource]bool{}, endpoints: map[doorKey]*endpoint{},
		served: map[schema.GroupVersion]bool{}, local: map[schema.GroupResource]*endpoint{},
		kinds: map[schema.GroupVersionKind]*kinds.Kind{},
	}
	for _, r := range resources {
		now.resources[r] = true
		for i := range r.Kind.Versions {
			v := &r.Kind.Versions[i]
			now.kinds[v.WithKind(r.Kind.Name)] = r.Kind
			now.served[v.GroupVersion] = now.served[v.GroupVersion] || !v.Unserved
			if before == nil || !before.resources[r] {
				a.open(now.endpoints, r, v)
			}
		}
	}
	if before != nil { // endpoints remember who manages what in which way
		for key, d := range before.endpoints {
			if now.resources[Resource{d.kind, d.cache}] {
				now.endpoints[key] = d
			}
		}
	}
	for key, d := range now.endpoints {
		if key.subresource == "" && key.GroupVersion == d.kind.Hub {
			now.local[d.resource] = d
		}
	}
	a.custom.Store(now)
}

// Install replaces the custom resources that can be reached; see API.Install.
func (l *Local) Install(resources []Resource) { l.api.Install(resources) }

func (d *endpoint) isScale() bool { return d.sub != nil && d.sub.Scale != nil }

// decoded reads a body. What a Go type does to content that it doesn't know, the schema of a custom resource does here.
func (c *call) decoded(body []byte, media serial.MediaType, want *schema.GroupVersionKind, into runtime.Object, strict bool) (runtime.Object, *schema.GroupVersionKind, error) {
	got, gvk, err := c.api.config.Codec.Decode(body, media, want, into, strict)
	u, ok := got.(*unstructured.Unstructured)
	if !ok || c.version.Coerce == nil || (err != nil && !runtime.IsStrictDecodingError(err)) {
		return got, gvk, err
	}
	var problems []error
	if s, ok := runtime.AsStrictDecodingError(err); ok {
		problems = s.Errors()
	}
	unknown, err := c.version.Coerce(u, false)
	if err != nil {
		return nil, gvk, err
	}
	for _, path := range unknown {
		problems = append(problems, errors.New(`unknown field "`+path+`"`)) // as it is: nothing in it is escaped
	}
	if strict && len(problems) > 0 && media != serial.CBOR { // of which upstream doesn't ask
		return got, gvk, runtime.NewStrictDecodingError(problems)
	}
	return got, gvk, nil
}

// isCustom tells whether obj came through this endpoint as a custom resource does, whatever its kind.
func (c *call) isCustom(obj runtime.Object) bool {
	_, free := obj.(*unstructured.Unstructured)
	return free && c.version.Coerce != nil
}

// onlyStatus tells whether all that is taken of what is written is the status of a custom resource. Of which kind and version the rest
// is doesn't matter then: upstream looks at what the old object says of that.
func (d *endpoint) onlyStatus() bool {
	return d.kind.Custom != nil && d.sub != nil && d.sub.Name == "status"
}

// misnamed notes that a custom resource was written as one of another kind or version than the request is about, and tells by which
// version's rules it is to be completed: by none, if there is no such version. Nobody has looked then for what the schema doesn't know.
// What is written to the status becomes one of the right kind; of the rest, what is wrong is for the validation to tell.
func (c *call) misnamed(obj runtime.Object, gvk schema.GroupVersionKind) *kinds.Version {
	v := c.kind.Readable(gvk.GroupVersion())
	known, renamed := v != nil && gvk.Kind == c.kind.Name, c.onlyStatus() && gvk.Version != ""
	if renamed {
		obj.GetObjectKind().SetGroupVersionKind(c.gvk)
	}
	if !known || !renamed {
		c.alien, c.strange = new(gvk.GroupKind()), true
	}
	if !known {
		return &kinds.Version{}
	}
	return v
}

func (d *endpoint) columns() []metav1.TableColumnDefinition {
	if d.version.Row != nil {
		return d.version.Columns
	}
	return d.kind.Columns
}

func (d *endpoint) cells(obj kinds.Object) []any {
	if d.version.Row != nil {
		return d.version.Row(obj)
	}
	return d.kind.Row(obj)
}

// customManager makes the field manager of an endpoint to a custom resource.
func customManager(d *endpoint, sub string, reset map[fieldpath.APIVersion]fieldpath.Filter) (*managedfields.FieldManager, error) {
	types, err := d.kind.Custom.Types()
	if err != nil {
		return nil, err
	}
	c := &customConverter{d.kind}
	return managedfields.NewDefaultCRDFieldManager(types, c, c, c, d.gvk, d.gvk.GroupVersion(), sub, reset)
}

// hasVersion refuses a custom resource that doesn't say of which version it is.
func (c *call) hasVersion(obj kinds.Object) error {
	if c.kind.Custom == nil || obj.GetObjectKind().GroupVersionKind().Version != "" {
		return nil
	}
	return apierrors.NewInternalError(runtime.NewMissingVersionErr("object has no apiVersion field"))
}

// customConverter does for custom resources, which say of themselves of which version they are, what converter does for
// Go types.
type customConverter struct{ kind *kinds.Kind }

// ConvertToVersion implements runtime.ObjectConvertor. The result may share memory with in.
func (c *customConverter) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	u, ok := in.(*unstructured.Unstructured)
	if !ok {
		return nil, errNotConverted
	}
	wanted, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{u.GroupVersionKind()})
	from, to := c.kind.Version(u.GroupVersionKind().GroupVersion()), c.kind.Version(wanted.GroupVersion())
	if !ok || from == nil {
		return nil, runtime.NewNotRegisteredErrForKind("quintet", wanted)
	}
	if to == nil {
		// No error of a missing version, of which structured merge forgets what was managed in it: so upstream has it.
		return nil, fmt.Errorf("request to convert CR to an invalid group/version: %s", wanted.GroupVersion())
	}
	return c.kind.Custom.Convert(u, to.GroupVersion)
}

// Convert implements runtime.ObjectConvertor.
func (c *customConverter) Convert(any, any, any) error { return errNotConverted }

// ConvertFieldLabel implements runtime.ObjectConvertor.
func (c *customConverter) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// Default implements runtime.ObjectDefaulter.
func (c *customConverter) Default(in runtime.Object) {
	if u, ok := in.(*unstructured.Unstructured); ok {
		if v := c.kind.Version(u.GroupVersionKind().GroupVersion()); v != nil && v.Default != nil {
			v.Default(u)
		}
	}
}

// New implements runtime.ObjectCreater.
func (c *customConverter) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	if v := c.kind.Version(gvk.GroupVersion()); v != nil {
		return v.New(), nil
	}
	return nil, runtime.NewNotRegisteredErrForKind("quintet", gvk)
}

// anew is an entry for a request of which who converts is asked each time.
func (d *endpoint) anew(e *cache.Entry) *cache.Entry {
	if d.kind.Custom == nil || !d.kind.Custom.Remote {
		return e
	}
	return &cache.Entry{Key: e.Key, Revision: e.Revision, Object: e.Object}
}
