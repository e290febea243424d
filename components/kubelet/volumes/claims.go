package volumes

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"
)

// resolve finds what is behind a volume: for one that is claimed the persistent volume that its claim is bound to. The
// texts of the errors are upstream's.
func (m *Manager) resolve(ctx context.Context, pod *v1.Pod, v *v1.Volume, used use) (*Source, error) {
	s := &Source{Pod: pod, Volume: v}
	switch {
	case v.PersistentVolumeClaim != nil:
		s.ReadOnly = v.PersistentVolumeClaim.ReadOnly
		return s, m.resolveClaim(ctx, s, v.PersistentVolumeClaim.ClaimName, used)
	case v.Ephemeral != nil:
		return s, m.resolveClaim(ctx, s, ephemeral.VolumeClaimName(pod, v), used)
	}
	if used.device {
		return nil, fmt.Errorf("volume %s has volumeMode Filesystem, but is specified in volumeDevices", v.Name)
	}
	if v.CSI != nil && v.CSI.ReadOnly != nil {
		s.ReadOnly = *v.CSI.ReadOnly
	}
	return s, nil
}

func (m *Manager) resolveClaim(ctx context.Context, s *Source, name string, used use) error {
	if m.Client == nil {
		return errors.New("claims can't be read: the kubelet has no client")
	}
	if err := m.readClaim(ctx, s, name); err != nil {
		return fmt.Errorf("error processing PVC %s/%s: %w", s.Pod.Namespace, name, err)
	}
	mode := v1.PersistentVolumeFilesystem
	if s.PV.Spec.VolumeMode != nil {
		mode = *s.PV.Spec.VolumeMode
	}
	s.Block = mode == v1.PersistentVolumeBlock
	switch {
	case s.Block && used.mounted:
		return fmt.Errorf("volume %s has volumeMode %s, but is specified in volumeMounts", s.Volume.Name, mode)
	case !s.Block && used.device:
		return fmt.Errorf("volume %s has volumeMode %s, but is specified in volumeDevices", s.Volume.Name, mode)
	}
	return nil
}

// readClaim reads a claim and the volume that it is bound to.
func (m *Manager) readClaim(ctx context.Context, s *Source, name string) error {
	claim, err := m.Client.CoreV1().PersistentVolumeClaims(s.Pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("failed to fetch PVC from API server: %w", err)
	}
	if s.Volume.Ephemeral != nil {
		if err := ephemeral.VolumeIsForPod(s.Pod, claim); err != nil {
			return err
		}
	}
	switch {
	case claim.DeletionTimestamp != nil:
		return errors.New("PVC is being deleted")
	case claim.Status.Phase != v1.ClaimBound:
		return errors.New("PVC is not bound")
	case claim.Spec.VolumeName == "":
		return errors.New("PVC has empty pvc.Spec.VolumeName")
	}
	pv, err := m.Client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("failed to fetch PV %s from API server: %w", claim.Spec.VolumeName, err)
	}
	switch ref := pv.Spec.ClaimRef; {
	case ref == nil:
		return fmt.Errorf("found PV object %s but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim",
			pv.Name)
	case ref.UID != claim.UID:
		return fmt.Errorf("found PV object %s but its pv.Spec.ClaimRef.UID %s does not point to claim.UID %s",
			pv.Name, ref.UID, claim.UID)
	}
	s.Claim, s.PV = claim, pv
	return nil
}
