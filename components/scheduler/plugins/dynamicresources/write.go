package dynamicresources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/internal/conflict"
)

// create creates the claim for extended resources.
func (f *Plugin) create(ctx context.Context, claim *resourcev1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	claim = claim.DeepCopy()
	claim.Name, claim.UID = "", ""
	created, err := f.Client.ResourceV1().ResourceClaims(claim.Namespace).Create(ctx, claim, metav1.CreateOptions{})
	if f.Created != nil {
		f.Created(err)
	}
	if err != nil {
		return nil, fmt.Errorf("create claim for extended resources %s/%s: %w", claim.Namespace, claim.GenerateName, err)
	}
	return created, nil
}

// write adds the finalizer and the allocation, if it is not nil, and the pod's reservation. Where the claim has
// changed, it tries again on the newer version.
func (f *Plugin) write(ctx context.Context, claim *resourcev1.ResourceClaim, allocation *resourcev1.AllocationResult,
	pod *v1.Pod) (*resourcev1.ResourceClaim, error) {
	now := claim
	err := conflict.Retry(retry.DefaultRetry, func() error {
		if now == nil {
			latest, err := f.Client.ResourceV1().ResourceClaims(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("get updated claim %s/%s after conflict: %w", claim.Namespace, claim.Name, err)
			}
			now = latest
		}
		tried := now
		now = nil
		written, err := f.writeOnce(ctx, tried.DeepCopy(), allocation, pod)
		if err == nil {
			now = written
		}
		return err
	})
	return now, err
}

func (f *Plugin) writeOnce(ctx context.Context, claim *resourcev1.ResourceClaim,
	allocation *resourcev1.AllocationResult, pod *v1.Pod) (*resourcev1.ResourceClaim, error) {
	client, name := f.Client.ResourceV1().ResourceClaims(claim.Namespace), claim.Namespace+"/"+claim.Name
	switch {
	case claim.DeletionTimestamp != nil:
		return nil, fmt.Errorf("claim %s got deleted in the meantime", name)
	case allocation != nil && claim.Status.Allocation != nil:
		return nil, fmt.Errorf("claim %s got allocated elsewhere in the meantime", name)
	case allocation == nil && claim.Status.Allocation == nil:
		return nil, fmt.Errorf("claim %s got deallocated elsewhere in the meantime", name)
	}
	what := "reservation"
	if allocation != nil {
		what = "allocation and reservation"
		if !slices.Contains(claim.Finalizers, resourcev1.Finalizer) { // the status can't be written with it
			claim.Finalizers = append(claim.Finalizers, resourcev1.Finalizer)
			updated, err := client.Update(ctx, claim, metav1.UpdateOptions{})
			if err != nil {
				return nil, fmt.Errorf("add finalizer to claim %s: %w", name, err)
			}
			claim = updated.DeepCopy()
		}
		claim.Status.Allocation = allocation.DeepCopy()
	}
	claim.Status.ReservedFor = append(claim.Status.ReservedFor,
		resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
	if f.Features.DeviceBindingAndStatus && claim.Status.Allocation.AllocationTimestamp == nil {
		claim.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: f.Clock.Now()}
	}
	updated, err := client.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("add %s to claim %s: %w", what, name, err)
	}
	return updated, nil
}

var errNoMappings = errors.New("nil or empty request mappings")

// tellPod writes status.extendedResourceClaimStatus.
func (f *Plugin) tellPod(ctx context.Context, pod *v1.Pod, claim string,
	mappings []v1.ContainerExtendedResourceRequest) error {
	fail := func(err error) error {
		return fmt.Errorf("update pod %s/%s ExtendedResourceClaimStatus: %w", pod.Namespace, pod.Name, err)
	}
	if len(mappings) == 0 {
		return fail(errNoMappings)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{
		"extendedResourceClaimStatus": v1.PodExtendedResourceClaimStatus{RequestMappings: mappings,
			ResourceClaimName: claim}}})
	if err == nil {
		_, err = f.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch,
			metav1.PatchOptions{}, "status")
	}
	if err != nil {
		return fail(err)
	}
	return nil
}

// release removes the pod from status.reservedFor, whatever else changes there.
func (f *Plugin) release(ctx context.Context, claim *resourcev1.ResourceClaim, pod *v1.Pod) error {
	patch := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"reservedFor":[{"$patch":"delete","uid":%q}]}}`, claim.UID,
		pod.UID)
	_, err := f.Client.ResourceV1().ResourceClaims(claim.Namespace).Patch(ctx, claim.Name,
		types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	return err
}

// delete takes the finalizer off a claim and deletes it.
func (f *Plugin) delete(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	client := f.Client.ResourceV1().ResourceClaims(claim.Namespace)
	now := claim.DeepCopy()
	err := conflict.Retry(retry.DefaultRetry, func() error {
		if now == nil {
			latest, err := client.Get(ctx, claim.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			now = latest.DeepCopy()
		}
		changed := now
		now = nil
		changed.Finalizers = slices.DeleteFunc(changed.Finalizers,
			func(name string) bool { return name == resourcev1.Finalizer })
		_, err := client.Update(ctx, changed, metav1.UpdateOptions{})
		return err
	})
	if err == nil {
		err = client.Delete(ctx, claim.Name, *metav1.NewPreconditionDeleteOptions(string(claim.UID)))
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// undo logs what could not be taken back: the next attempt of the pod, or the claim's controller, will.
func (*Plugin) undo(ctx context.Context, claim *resourcev1.ResourceClaim, err error) {
	if err != nil {
		klog.FromContext(ctx).Error(err, "ResourceClaim could not be released", "resourceclaim", klog.KObj(claim))
	}
}
