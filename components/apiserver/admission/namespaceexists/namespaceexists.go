// Package namespaceexists keeps objects out of namespaces that don't exist
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#namespaceexists).
package namespaceexists

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/objects"
)

// Name is the plug-in's.
const Name = "NamespaceExists"

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
	objects objects.Reader
}

var _ admission.ValidationInterface = Plugin{}

// New returns the plug-in.
func New(reader objects.Reader) Plugin {
	return Plugin{admission.NewHandler(admission.Create, admission.Update, admission.Delete), reader}
}

// Validate implements admission.ValidationInterface. Memory is trusted when it knows the namespace; else the store is
// asked.
func (p Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	namespaces := corev1.Resource("namespaces")
	if a.GetNamespace() == "" || a.GetResource().GroupResource() == namespaces {
		return nil
	}
	_, err := p.objects.Get(ctx, namespaces, "", a.GetNamespace())
	if apierrors.IsNotFound(err) {
		_, err = p.objects.Live(ctx, namespaces, "", a.GetNamespace())
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return apierrors.NewInternalError(err)
	}
	return err
}
