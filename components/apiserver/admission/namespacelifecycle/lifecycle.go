// Package namespacelifecycle keeps objects out of namespaces that don't exist or are going away, and keeps the system's
// namespaces (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#namespacelifecycle).
package namespacelifecycle

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/objects"
)

// Name is the plug-in's.
const Name = "NamespaceLifecycle"

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
	objects objects.Reader
}

var _ admission.MutationInterface = &Plugin{}

// New returns the plug-in.
func New(reader objects.Reader) *Plugin {
	return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update, admission.Delete), objects: reader}
}

// immortal namespaces can't be deleted.
var immortal = map[string]bool{metav1.NamespaceDefault: true, metav1.NamespaceSystem: true,
	metav1.NamespacePublic: true}

// Admit implements admission.MutationInterface; it changes nothing.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	isNamespace := a.GetResource().GroupResource() == corev1.Resource("namespaces")
	if isNamespace && a.GetOperation() == admission.Delete && immortal[a.GetName()] {
		return apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(),
			fmt.Errorf("this namespace may not be deleted"))
	}
	if isNamespace || a.GetNamespace() == "" || a.GetOperation() == admission.Delete || isReview(a) {
		return nil
	}
	namespace, err := p.find(ctx, a.GetNamespace())
	if err != nil {
		if apierrors.IsNotFound(err) {
			return err
		}
		return apierrors.NewInternalError(err)
	}
	if a.GetOperation() != admission.Create || namespace.Status.Phase != corev1.NamespaceTerminating {
		return nil
	}
	return terminating(a, namespace.Name)
}

// isReview: access reviews may be made about any namespace.
func isReview(a admission.Attributes) bool {
	r := a.GetResource()
	return r.Group == "authorization.k8s.io" && r.Resource == "localsubjectaccessreviews"
}

// find trusts memory when it says that the namespace is there, and looks again when it says that it is not: it may just
// have been made.
func (p *Plugin) find(ctx context.Context, name string) (*corev1.Namespace, error) {
	namespace, err := objects.As[*corev1.Namespace](p.objects.Get(ctx, corev1.Resource("namespaces"), "", name))
	if apierrors.IsNotFound(err) {
		return objects.As[*corev1.Namespace](p.objects.Live(ctx, corev1.Resource("namespaces"), "", name))
	}
	return namespace, err
}

func terminating(a admission.Attributes, namespace string) error {
	err := admission.NewForbidden(a,
		fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace))
	if status, ok := err.(*apierrors.StatusError); ok {
		status.ErrStatus.Details.Causes = append(status.ErrStatus.Details.Causes, metav1.StatusCause{
			Type:    corev1.NamespaceTerminatingCause,
			Message: fmt.Sprintf("namespace %s is being terminated", namespace),
			Field:   "metadata.namespace",
		})
	}
	return err
}
