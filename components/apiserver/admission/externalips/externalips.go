// Package externalips keeps Services from using external IPs
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#denyserviceexternalips).
package externalips

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
)

// Name is the plug-in's.
const Name = "DenyServiceExternalIPs"

// Plugin implements the admission.
type Plugin struct{ *admission.Handler }

var _ admission.ValidationInterface = Plugin{}

// New returns the plug-in.
func New() Plugin { return Plugin{admission.NewHandler(admission.Create, admission.Update)} }

// Validate implements admission.ValidationInterface. What a Service has it may keep, or drop.
func (Plugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("services") || a.GetSubresource() != "" {
		return nil
	}
	service, ok := a.GetObject().(*corev1.Service)
	if !ok {
		return nil
	}
	var had []string
	if old, ok := a.GetOldObject().(*corev1.Service); ok {
		had = old.Spec.ExternalIPs
	}
	for _, ip := range service.Spec.ExternalIPs {
		if !slices.Contains(had, ip) {
			//lint:ignore ST1005 upstream's words, which clients read
			return admission.NewForbidden(a, errors.New("Use of external IPs is denied by admission control"))
		}
	}
	return nil
}
