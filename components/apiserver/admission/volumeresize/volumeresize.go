// Package volumeresize lets claims grow only where their storage class says that volumes can
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#persistentvolumeclaimresize).
package volumeresize

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/internal/quotas"
)

// Name is the plug-in's.
const Name = "PersistentVolumeClaimResize"

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
	objects objects.Reader
}

var _ admission.ValidationInterface = &Plugin{}

// New returns the plug-in.
func New(reader objects.Reader) *Plugin {
	return &Plugin{Handler: admission.NewHandler(admission.Update), objects: reader}
}

// Validate implements admission.ValidationInterface.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("persistentvolumeclaims") || a.GetSubresource() != "" {
		return nil
	}
	claim, ok := a.GetObject().(*corev1.PersistentVolumeClaim)
	if !ok {
		return nil
	}
	old, ok := a.GetOldObject().(*corev1.PersistentVolumeClaim)
	if !ok {
		return nil
	}
	was, is := old.Spec.Resources.Requests[corev1.ResourceStorage],
		claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if is.Cmp(was) <= 0 {
		return nil
	}
	if old.Status.Phase != corev1.ClaimBound {
		//lint:ignore ST1005 upstream's words, which clients read
		unbound := errors.New("Only bound persistent volume claims can be expanded")
		return admission.NewForbidden(a, unbound)
	}
	if class := quotas.StorageClass(old); class != quotas.StorageClass(claim) || !p.expandable(ctx, class) {
		return admission.NewForbidden(a, fmt.Errorf("only dynamically provisioned pvc can be resized and "+
			"the storageclass that provisions the pvc must support resize"))
	}
	return nil
}

// expandable tells whether the volumes of a storage class, "" for none, can grow.
func (p *Plugin) expandable(ctx context.Context, name string) bool {
	if name == "" {
		return false
	}
	class, err := objects.As[*storagev1.StorageClass](
		p.objects.Get(ctx, storagev1.Resource("storageclasses"), "", name))
	return err == nil && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion
}
