// Package ingressclass gives ingresses without a class the default one
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#defaultingressclass).
package ingressclass

import (
	"context"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/objects"
)

// Name is the plug-in's.
const Name = "DefaultIngressClass"

// legacyAnnotation names the class of ingresses that are older than the field.
const legacyAnnotation = "kubernetes.io/ingress.class"

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
	objects objects.Reader
}

var _ admission.MutationInterface = &Plugin{}

// New returns the plug-in.
func New(reader objects.Reader) *Plugin {
	return &Plugin{Handler: admission.NewHandler(admission.Create), objects: reader}
}

// Admit sets spec.ingressClassName.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != networkingv1.Resource("ingresses") || a.GetSubresource() != "" {
		return nil
	}
	ingress, ok := a.GetObject().(*networkingv1.Ingress)
	if !ok {
		return apierrors.NewBadRequest("resource was marked with kind Ingress but was unable to be converted")
	}
	if _, named := ingress.Annotations[legacyAnnotation]; named || ingress.Spec.IngressClassName != nil {
		return nil
	}
	list, err := objects.ListAs[*networkingv1.IngressClass](
		p.objects.List(ctx, networkingv1.Resource("ingressclasses"), ""))
	if err != nil && !apierrors.IsNotFound(err) {
		return admission.NewForbidden(a, fmt.Errorf("listing ingress classes: %w", err))
	}
	var newest *networkingv1.IngressClass
	for _, class := range list {
		if class.Annotations[networkingv1.AnnotationIsDefaultIngressClass] != "true" {
			continue
		}
		if newest == nil || newest.CreationTimestamp.Before(&class.CreationTimestamp) ||
			(newest.CreationTimestamp.Equal(&class.CreationTimestamp) && class.Name < newest.Name) {
			newest = class
		}
	}
	if newest != nil {
		name := newest.Name
		ingress.Spec.IngressClassName = &name
	}
	return nil
}
