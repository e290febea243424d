package csi

import (
	"context"
	"encoding/json"
	"fmt"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// grows tells whether the persistent volume has become larger than its claim says, so that the node has its part to do.
func grows(v *volume) bool {
	if v.Claim == nil || v.ReadOnly {
		return false
	}
	wanted, has := v.PV.Spec.Capacity[v1.ResourceStorage], v.Claim.Status.Capacity[v1.ResourceStorage]
	return wanted.Cmp(has) > 0 && !has.IsZero()
}

// expand lets the driver grow what is on a volume that was made larger, and tells the claim
// (https://kubernetes.io/docs/concepts/storage/persistent-volumes/#csi-volume-expansion).
func (p *Plugin) expand(ctx context.Context, client *client, v *volume, path, staging string, able abilities,
	capability *csispec.VolumeCapability) error {
	if !grows(v) || !able[csispec.NodeServiceCapability_RPC_EXPAND_VOLUME] {
		return nil
	}
	secrets, err := p.secret(ctx, v.expandSecret)
	if err != nil {
		return err
	}
	size := v.PV.Spec.Capacity[v1.ResourceStorage]
	_, err = client.node.NodeExpandVolume(ctx, &csispec.NodeExpandVolumeRequest{
		VolumeId: v.handle, VolumePath: path, StagingTargetPath: staging, VolumeCapability: capability, Secrets: secrets,
		CapacityRange: &csispec.CapacityRange{RequiredBytes: size.Value()},
	})
	if err != nil {
		return err
	}
	if err := p.noteSize(ctx, v.Claim, size); err != nil {
		return fmt.Errorf("update the status of claim %s/%s: %w", v.Claim.Namespace, v.Claim.Name, err)
	}
	p.Recorder.Event(podReference(v.Pod), v1.EventTypeNormal, "FileSystemResizeSuccessful",
		fmt.Sprintf("MountVolume.NodeExpandVolume succeeded for volume %q %s", v.Name(), p.NodeName))
	return nil
}

// noteSize writes the new size into a claim's status and ends the resize there.
func (p *Plugin) noteSize(ctx context.Context, claim *v1.PersistentVolumeClaim, size resource.Quantity) error {
	patch := map[string]any{"status": map[string]any{
		"capacity": map[string]any{string(v1.ResourceStorage): size.String()},
		"conditions": []map[string]any{
			{"type": v1.PersistentVolumeClaimResizing, "$patch": "delete"},
			{"type": v1.PersistentVolumeClaimFileSystemResizePending, "$patch": "delete"},
			{"type": v1.PersistentVolumeClaimNodeResizeError, "$patch": "delete"},
		},
		"allocatedResourceStatuses": map[string]any{string(v1.ResourceStorage): nil},
	}}
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = p.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name,
		types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	return err
}

func podReference(pod *v1.Pod) *v1.ObjectReference {
	return &v1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		ResourceVersion: pod.ResourceVersion,
	}
}
