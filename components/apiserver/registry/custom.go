package registry

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// hasVersion refuses a custom resource that doesn't say of which version it is.
func (w Writer) hasVersion(obj api.Object) error {
	if w.Kind.Custom == nil || obj.GetObjectKind().GroupVersionKind().Version != "" {
		return nil
	}
	return apierrors.NewInternalError(runtime.NewMissingVersionErr("object has no apiVersion field"))
}
