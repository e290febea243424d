package fieldmanager

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// customConverter does for custom resources, which say of themselves of which version they are, what converter does for
// Go types.
type customConverter struct{ kind *api.Kind }

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
