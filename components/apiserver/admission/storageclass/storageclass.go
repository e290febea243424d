// Package storageclass gives claims without a storage class the default one
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#defaultstorageclass).
package storageclass

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/objects"
)

// Name is the plug-in's.
const Name = "DefaultStorageClass"

const (
	defaultAnnotation = "storageclass.kubernetes.io/is-default-class"
	betaAnnotation    = "storageclass.beta.kubernetes.io/is-default-class"
)

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

// Admit sets spec.storageClassName; a claim that names "" wants none.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != corev1.Resource("persistentvolumeclaims") || a.GetSubresource() != "" {
		return nil
	}
	claim, ok := a.GetObject().(*corev1.PersistentVolumeClaim)
	if !ok {
		return nil
	}
	if _, named := claim.Annotations[corev1.BetaStorageClassAnnotation]; named || claim.Spec.StorageClassName != nil {
		return nil
	}
	list, err := objects.ListAs[*storagev1.StorageClass](p.objects.List(ctx, storagev1.Resource("storageclasses"), ""))
	if err != nil && !apierrors.IsNotFound(err) {
		return admission.NewForbidden(a, fmt.Errorf("listing storage classes: %w", err))
	}
	if class := newestDefault(list); class != nil {
		name := class.Name
		claim.Spec.StorageClassName = &name
	}
	return nil
}

func newestDefault(list []*storagev1.StorageClass) *storagev1.StorageClass {
	var newest *storagev1.StorageClass
	for _, class := range list {
		if class.Annotations[defaultAnnotation] != "true" && class.Annotations[betaAnnotation] != "true" {
			continue
		}
		if newest == nil || newest.CreationTimestamp.Before(&class.CreationTimestamp) ||
			(newest.CreationTimestamp.Equal(&class.CreationTimestamp) && class.Name < newest.Name) {
			newest = class
		}
	}
	return newest
}
