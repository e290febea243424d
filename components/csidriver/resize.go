package csidriver

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
)

// resizer expands the volumes of this node whose claims ask for more than they have
// (https://kubernetes.io/docs/concepts/storage/persistent-volumes/#expanding-persistent-volumes-claims).
type resizer struct {
	config  *Config
	driver  csi.ControllerClient
	objects kubernetes.Interface
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	events  record.EventRecorder
	clock   clock.PassiveClock
}

// resizeStep is what to do about a claim.
type resizeStep int

const (
	resizeNothing resizeStep = iota
	resizeVolume             // have the driver expand the volume
	resizePending            // leave the rest to the kubelet
)

// planResize decides on a claim and its volume.
func planResize(claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) resizeStep {
	ref := pv.Spec.ClaimRef
	if claim.Status.Phase != v1.ClaimBound || claim.DeletionTimestamp != nil || ref == nil || ref.UID != claim.UID {
		return resizeNothing
	}
	wanted, has := claim.Spec.Resources.Requests[v1.ResourceStorage], claim.Status.Capacity[v1.ResourceStorage]
	size := pv.Spec.Capacity[v1.ResourceStorage]
	switch {
	case has.IsZero() || wanted.Cmp(has) <= 0:
		return resizeNothing
	case wanted.Cmp(size) > 0:
		return resizeVolume
	case claim.Status.AllocatedResourceStatuses[v1.ResourceStorage] == v1.PersistentVolumeClaimNodeResizePending,
		claim.Status.AllocatedResourceStatuses[v1.ResourceStorage] == v1.PersistentVolumeClaimNodeResizeInProgress,
		claim.Status.AllocatedResourceStatuses[v1.ResourceStorage] == v1.PersistentVolumeClaimNodeResizeInfeasible:
		return resizeNothing
	default:
		return resizePending
	}
}

func (r *resizer) reconcile(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	claim, err := r.claims.PersistentVolumeClaims(namespace).Get(name)
	if err != nil || claim.Spec.VolumeName == "" {
		return ignoreGone(err)
	}
	pv, err := r.volumes.Get(claim.Spec.VolumeName)
	if err != nil || !r.config.owns(pv) {
		return ignoreGone(err)
	}
	wanted := claim.Spec.Resources.Requests[v1.ResourceStorage]
	switch planResize(claim, pv) {
	case resizeVolume:
		return r.expand(ctx, claim, pv, wanted)
	case resizePending:
		return r.markPending(ctx, claim)
	}
	return nil
}

// expand has the driver expand the volume, writes its new size into the persistent volume, and leaves the rest to the
// kubelet.
func (r *resizer) expand(ctx context.Context, claim *v1.PersistentVolumeClaim, pv *v1.PersistentVolume,
	wanted resource.Quantity) error {
	claim, err := r.writeStatus(ctx, claim, v1.PersistentVolumeClaimControllerResizeInProgress, &wanted,
		v1.PersistentVolumeClaimResizing)
	if err != nil {
		return ignoreGone(err)
	}
	r.events.Eventf(claim, v1.EventTypeNormal, "Resizing", "External resizer is resizing volume %s", pv.Name)
	response, err := r.driver.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{
		VolumeId: pv.Spec.CSI.VolumeHandle, VolumeCapability: volumeCapability(pv),
		CapacityRange: &csi.CapacityRange{RequiredBytes: wanted.Value()},
	})
	if err != nil {
		r.events.Eventf(claim, v1.EventTypeWarning, "VolumeResizeFailed", "resize volume %q by resizer %q failed: %v",
			pv.Name, r.config.DriverName, err)
		if infeasible(err) {
			_, noted := r.writeStatus(ctx, claim, v1.PersistentVolumeClaimControllerResizeInfeasible, &wanted,
				v1.PersistentVolumeClaimResizing)
			err = errors.Join(err, noted)
		}
		return err
	}
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"capacity": map[string]any{
		string(v1.ResourceStorage): quantityText(response.GetCapacityBytes())}}})
	if err != nil {
		return err
	}
	if _, err := r.objects.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType, data,
		metav1.PatchOptions{}); err != nil {
		return ignoreGone(err)
	}
	return r.markPending(ctx, claim)
}

// infeasible tells whether trying again won't help.
func infeasible(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.OutOfRange, codes.NotFound, codes.Unimplemented:
		return true
	default:
		return false
	}
}

func (r *resizer) markPending(ctx context.Context, claim *v1.PersistentVolumeClaim) error {
	r.events.Event(claim, v1.EventTypeNormal, "FileSystemResizeRequired",
		"Require file system resize of volume on node")
	_, err := r.writeStatus(ctx, claim, v1.PersistentVolumeClaimNodeResizePending, nil,
		v1.PersistentVolumeClaimFileSystemResizePending)
	return ignoreGone(err)
}

// writeStatus writes how far the expansion of a claim is, unless the claim has changed meanwhile; allocated, if not
// nil, is to which size. It returns the claim as it is then.
func (r *resizer) writeStatus(ctx context.Context, claim *v1.PersistentVolumeClaim, state v1.ClaimResourceStatus,
	allocated *resource.Quantity, condition v1.PersistentVolumeClaimConditionType) (*v1.PersistentVolumeClaim, error) {
	other := v1.PersistentVolumeClaimResizing
	if condition == other {
		other = v1.PersistentVolumeClaimFileSystemResizePending
	}
	now := r.clock.Now().UTC().Format(time.RFC3339)
	values := map[string]any{
		"allocatedResourceStatuses": map[string]any{string(v1.ResourceStorage): state},
		"conditions": []map[string]any{
			{"type": condition, "status": v1.ConditionTrue, "lastTransitionTime": now, "message": conditionText(condition)},
			{"type": other, "$patch": "delete"},
		},
	}
	if allocated != nil {
		values["allocatedResources"] = map[string]any{string(v1.ResourceStorage): allocated.String()}
	}
	data, err := json.Marshal(map[string]any{"status": values,
		"metadata": map[string]any{"resourceVersion": claim.ResourceVersion}})
	if err != nil {
		return nil, err
	}
	return r.objects.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name,
		types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
}

func conditionText(condition v1.PersistentVolumeClaimConditionType) string {
	if condition == v1.PersistentVolumeClaimFileSystemResizePending {
		return "Waiting for user to (re-)start a pod to finish file system resize of volume on node."
	}
	return ""
}

func bytesQuantity(bytes int64) resource.Quantity {
	return *resource.NewQuantity(bytes, resource.BinarySI)
}

func quantityText(bytes int64) string {
	q := bytesQuantity(bytes)
	return q.String()
}
