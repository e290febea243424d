// Package storage holds what the kinds of storage.k8s.io need beyond their rows. It is pure.
package storage

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// defaultAnnotations mark the class that claims without one get.
var defaultAnnotations = [...]string{"storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"}

// DefaultClass sets the defaults of a storage class.
func DefaultClass(c *storagev1.StorageClass) {
	setDefault(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
	setDefault(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
}

// DefaultDriver sets the defaults of a CSI driver.
func DefaultDriver(d *storagev1.CSIDriver) {
	s := &d.Spec
	setDefault(&s.AttachRequired, true)
	setDefault(&s.PodInfoOnMount, false)
	setDefault(&s.StorageCapacity, false)
	setDefault(&s.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	if len(s.VolumeLifecycleModes) == 0 {
		s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
	setDefault(&s.RequiresRepublish, false)
	setDefault(&s.SELinuxMount, false)
}

func setDefault[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

// ClassColumns are the columns of storage classes.
func ClassColumns() show.Columns {
	doc := storagev1.StorageClass{}.SwaggerDoc()
	return show.Name().
		String("Provisioner", doc["provisioner"]).
		String("ReclaimPolicy", doc["reclaimPolicy"]).
		String("VolumeBindingMode", doc["volumeBindingMode"]).
		String("AllowVolumeExpansion", doc["allowVolumeExpansion"]).
		Age()
}

// ClassRow are the cells of a storage class.
func ClassRow(c *storagev1.StorageClass) []any {
	name := c.Name
	for _, a := range defaultAnnotations {
		if c.Annotations[a] == "true" {
			name = c.Name + " (default)"
		}
	}
	return []any{name, c.Provisioner, string(show.Or(c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)),
		string(show.Or(c.VolumeBindingMode, storagev1.VolumeBindingImmediate)), show.Or(c.AllowVolumeExpansion, false),
		show.Age(c.CreationTimestamp)}
}

// AttachmentColumns are the columns of volume attachments.
func AttachmentColumns() show.Columns {
	spec, status := storagev1.VolumeAttachmentSpec{}.SwaggerDoc(), storagev1.VolumeAttachmentStatus{}.SwaggerDoc()
	return show.Name().
		NameOf("Attacher", spec["attacher"]).
		String("PV", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"]).
		String("Node", spec["nodeName"]).
		Of("boolean", "Attached", status["attached"]).
		Age()
}

// AttachmentRow are the cells of a volume attachment.
func AttachmentRow(a *storagev1.VolumeAttachment) []any {
	return []any{a.Name, a.Spec.Attacher, show.Or(a.Spec.Source.PersistentVolumeName, ""), a.Spec.NodeName, a.Status.Attached,
		show.Age(a.CreationTimestamp)}
}

// DriverColumns are the columns of CSI drivers.
func DriverColumns() show.Columns {
	doc := storagev1.CSIDriverSpec{}.SwaggerDoc()
	return show.Name().
		Of("boolean", "AttachRequired", doc["attachRequired"]).
		Of("boolean", "PodInfoOnMount", doc["podInfoOnMount"]).
		Of("boolean", "StorageCapacity", doc["storageCapacity"]).
		String("TokenRequests", doc["tokenRequests"]).
		Of("boolean", "RequiresRepublish", doc["requiresRepublish"]).
		String("Modes", doc["volumeLifecycleModes"]).
		Age()
}

// DriverRow are the cells of a CSI driver.
func DriverRow(d *storagev1.CSIDriver) []any {
	tokens := show.Unset
	if list := d.Spec.TokenRequests; len(list) > 0 {
		audiences := make([]string, len(list))
		for i, t := range list {
			audiences[i] = t.Audience
		}
		tokens = strings.Join(audiences, ",")
	}
	return []any{d.Name, show.Or(d.Spec.AttachRequired, true), show.Or(d.Spec.PodInfoOnMount, false),
		show.Or(d.Spec.StorageCapacity, false), tokens, show.Or(d.Spec.RequiresRepublish, false),
		show.Join(d.Spec.VolumeLifecycleModes, ","), show.Age(d.CreationTimestamp)}
}

// NodeColumns are the columns of CSI nodes.
func NodeColumns() show.Columns {
	return show.Name().Of("integer", "Drivers", "Drivers indicates the number of CSI drivers registered on the node").Age()
}

// NodeRow are the cells of a CSI node.
func NodeRow(n *storagev1.CSINode) []any {
	return []any{n.Name, int64(len(n.Spec.Drivers)), show.Age(n.CreationTimestamp)}
}

// AttributesColumns are the columns of volume attributes classes.
func AttributesColumns() show.Columns {
	return show.Name().String("DriverName", storagev1.VolumeAttributesClass{}.SwaggerDoc()["driverName"]).Age()
}

// AttributesRow are the cells of a volume attributes class.
func AttributesRow(c *storagev1.VolumeAttributesClass) []any {
	return []any{c.Name, c.DriverName, show.Age(c.CreationTimestamp)}
}
