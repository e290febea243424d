// Package namespaceautoprovision makes the namespaces that objects are put into
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#namespaceautoprovision).
package namespaceautoprovision

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/objects"
)

// Name is the plug-in's.
const Name = "NamespaceAutoProvision"

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
	objects objects.Store
}

var _ admission.MutationInterface = Plugin{}

// New returns the plug-in.
func New(store objects.Store) Plugin {
	return Plugin{admission.NewHandler(admission.Create), store}
}

// Admit implements admission.MutationInterface.
func (p Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	namespaces := corev1.Resource("namespaces")
	if a.IsDryRun() || a.GetNamespace() == "" || a.GetResource().GroupResource() == namespaces {
		return nil
	}
	_, err := p.objects.Get(ctx, namespaces, "", a.GetNamespace())
	if apierrors.IsNotFound(err) {
		_, err = p.objects.Create(ctx, namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.GetNamespace()}})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return admission.NewForbidden(a, err)
	}
	return nil
}
