// Package inuseprotection keeps volumes and claims until nothing uses them
// (https://kubernetes.io/docs/concepts/storage/persistent-volumes/#storage-object-in-use-protection).
package inuseprotection

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// Name is the plug-in's.
const Name = "StorageObjectInUseProtection"

// finalizers that controllers take away when the object is no longer in use.
var finalizers = map[schema.GroupResource]string{
	corev1.Resource("persistentvolumes"):          "kubernetes.io/pv-protection",
	corev1.Resource("persistentvolumeclaims"):     "kubernetes.io/pvc-protection",
	storagev1.Resource("volumeattributesclasses"): "kubernetes.io/vac-protection",
}

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
}

var _ admission.MutationInterface = &Plugin{}

// New returns the plug-in.
func New() *Plugin { return &Plugin{admission.NewHandler(admission.Create)} }

// Admit adds the finalizer.
func (*Plugin) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	finalizer := finalizers[a.GetResource().GroupResource()]
	obj, ok := a.GetObject().(metav1.Object)
	if finalizer == "" || a.GetSubresource() != "" || !ok || slices.Contains(obj.GetFinalizers(), finalizer) {
		return nil
	}
	obj.SetFinalizers(append(slices.Clone(obj.GetFinalizers()), finalizer))
	return nil
}
