// Package namespaceautoprovision makes the namespaces that objects are put into
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#namespaceautoprovision).
package namespaceautoprovision

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/components/apiserver/objects"
)

// Name is the plug-in's.
const Name = "NamespaceAutoProvision"

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
	objects objects.Reader
	client  typedcore.NamespacesGetter
}

var _ admission.MutationInterface = Plugin{}

// New returns the plug-in. It makes namespaces as a client of the server itself, as they pass admission, too.
func New(reader objects.Reader, client *rest.Config) (Plugin, error) {
	core, err := typedcore.NewForConfig(client)
	return Plugin{admission.NewHandler(admission.Create), reader, core}, err
}

// Admit implements admission.MutationInterface.
func (p Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	namespaces := corev1.Resource("namespaces")
	if a.IsDryRun() || a.GetNamespace() == "" || a.GetResource().GroupResource() == namespaces {
		return nil
	}
	_, err := p.objects.Get(ctx, namespaces, "", a.GetNamespace())
	if apierrors.IsNotFound(err) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: a.GetNamespace()}}
		_, err = p.client.Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return admission.NewForbidden(a, err)
	}
	return nil
}
