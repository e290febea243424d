package storage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// TestInlineVolumesAreDefaulted as volumes of their own are, from wherever they come.
func TestInlineVolumesAreDefaulted(t *testing.T) {
	a := &storagev1.VolumeAttachment{}
	DefaultAttachment(a)
	a.Spec.Source.InlineVolumeSpec = &corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
		RBD: &corev1.RBDPersistentVolumeSource{RBDPool: "mine"}, ISCSI: &corev1.ISCSIPersistentVolumeSource{},
	}}
	DefaultAttachment(a)
	s := a.Spec.Source.InlineVolumeSpec
	if s.RBD.RBDPool != "mine" || s.RBD.RadosUser != "admin" || s.ISCSI.ISCSIInterface != "default" ||
		s.VolumeMode != nil {
		t.Errorf("%+v", s)
	}
}
