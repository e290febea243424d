package noderestriction

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/authz/node"
	"quintet.dev/quintet/components/apiserver/objects"
)

func (p *Plugin) admitPods(ctx context.Context, nodeName string, a admission.Attributes) error {
	switch a.GetSubresource() {
	case "":
		return p.admitPod(ctx, nodeName, a)
	case "status":
		return p.admitPodStatus(nodeName, a)
	case "eviction":
		return p.admitEviction(ctx, nodeName, a)
	}
	return forbid(a, "unexpected pod subresource %q, only 'status' and 'eviction' are allowed", a.GetSubresource())
}

func (p *Plugin) admitPod(ctx context.Context, nodeName string, a admission.Attributes) error {
	switch a.GetOperation() {
	case admission.Create:
		return p.admitMirrorPod(ctx, nodeName, a)
	case admission.Delete:
		pod, err := p.pod(ctx, a.GetNamespace(), a.GetName())
		if err != nil {
			return err
		}
		if pod.Spec.NodeName != nodeName {
			return forbid(a, "node %q can only delete pods with spec.nodeName set to itself", nodeName)
		}
		return nil
	}
	return forbid(a, "unexpected operation %q, node %q can only create and delete mirror pods", a.GetOperation(),
		nodeName)
}

func (p *Plugin) pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod, err := objects.As[*corev1.Pod](p.objects.Get(ctx, corev1.Resource("pods"), namespace, name))
	if apierrors.IsNotFound(err) {
		pod, err = objects.As[*corev1.Pod](p.objects.Live(ctx, corev1.Resource("pods"), namespace, name))
	}
	return pod, one(err, corev1.Resource("pod"), name)
}

// admitMirrorPod: a node may only show its static pods. They name no other objects, or the node could give itself
// access to any.
func (p *Plugin) admitMirrorPod(ctx context.Context, nodeName string, a admission.Attributes) error {
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return unexpected(a)
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; !mirror {
		return forbid(a, "pod does not have %q annotation, node %q can only create mirror pods",
			corev1.MirrorPodAnnotationKey, nodeName)
	}
	if pod.Spec.NodeName != nodeName {
		return forbid(a, "node %q can only create pods with spec.nodeName set to itself", nodeName)
	}
	if err := p.checkOwner(ctx, nodeName, a, pod); err != nil {
		return err
	}
	what, err := node.Refers(pod)
	if err != nil {
		return forbid(a, "error checking mirror pod for API references: %w", err)
	}
	if what != "" {
		return forbid(a, "node %q can not create pods that reference %s", nodeName, what)
	}
	return nil
}

func (p *Plugin) checkOwner(ctx context.Context, nodeName string, a admission.Attributes, pod *corev1.Pod) error {
	switch n := len(pod.OwnerReferences); {
	case n > 1:
		return forbid(a, "node %q can only create pods with a single owner reference set to itself", nodeName)
	case n == 0:
		return forbid(a, "node %q can only create pods with an owner reference set to itself", nodeName)
	}
	owner := pod.OwnerReferences[0]
	if owner.APIVersion != corev1.SchemeGroupVersion.String() || owner.Kind != "Node" || owner.Name != nodeName {
		return forbid(a, "node %q can only create pods with an owner reference set to itself", nodeName)
	}
	if owner.Controller == nil || !*owner.Controller {
		return forbid(a, "node %q can only create pods with a controller owner reference set to itself", nodeName)
	}
	if owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion {
		return forbid(a, "node %q must not set blockOwnerDeletion on an owner reference", nodeName)
	}
	self, err := objects.As[*corev1.Node](p.objects.Live(ctx, corev1.Resource("nodes"), "", nodeName))
	if apierrors.IsNotFound(err) {
		return apierrors.NewNotFound(corev1.Resource("node"), nodeName)
	} else if err != nil {
		return forbid(a, "error looking up node %s to verify uid: %v", nodeName, err)
	}
	if owner.UID != self.UID {
		return forbid(a, "node %s UID mismatch: expected %s got %s", owner.Name, owner.UID, self.UID)
	}
	return nil
}

func (p *Plugin) admitPodStatus(nodeName string, a admission.Attributes) error {
	if a.GetOperation() != admission.Update {
		return forbid(a, "unexpected operation %q", a.GetOperation())
	}
	old, ok := a.GetOldObject().(*corev1.Pod)
	if !ok {
		return forbid(a, "unexpected type %T", a.GetOldObject())
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return unexpected(a)
	}
	switch {
	case old.Spec.NodeName != nodeName:
		return forbid(a, "node %q can only update pod status for pods with spec.nodeName set to itself", nodeName)
	case !equality.Semantic.DeepEqual(old.Labels, pod.Labels):
		return forbid(a, "node %q cannot update labels through pod status", nodeName)
	case !equality.Semantic.DeepEqual(old.Status.ResourceClaimStatuses, pod.Status.ResourceClaimStatuses):
		return forbid(a, "node %q cannot update resource claim statues", nodeName) // sic
	case !equality.Semantic.DeepEqual(old.Status.ExtendedResourceClaimStatus, pod.Status.ExtendedResourceClaimStatus):
		return forbid(a, "node %q cannot update extended resource claim status", nodeName)
	}
	return nil
}

func (p *Plugin) admitEviction(ctx context.Context, nodeName string, a admission.Attributes) error {
	if a.GetOperation() != admission.Create {
		return forbid(a, "unexpected operation %s", a.GetOperation())
	}
	eviction, ok := a.GetObject().(*policyv1.Eviction)
	if !ok {
		return unexpected(a)
	}
	name := a.GetName()
	if name == "" {
		if eviction.Name == "" {
			return forbid(a, "could not determine pod from request data")
		}
		name = eviction.Name
	}
	pod, err := p.pod(ctx, a.GetNamespace(), name)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName != nodeName {
		return forbid(a, "node %s can only evict pods with spec.nodeName set to itself", nodeName)
	}
	return nil
}

// admitClaim: a node may tell the size and conditions of a volume that it grew.
func (p *Plugin) admitClaim(_ context.Context, nodeName string, a admission.Attributes) error {
	if a.GetSubresource() != "status" {
		return forbid(a, "may only update PVC status")
	}
	if a.GetOperation() != admission.Update {
		return forbid(a, "unexpected operation %q", a.GetOperation())
	}
	old, ok := a.GetOldObject().(*corev1.PersistentVolumeClaim)
	if !ok {
		return forbid(a, "unexpected type %T", a.GetOldObject())
	}
	claim, ok := a.GetObject().(*corev1.PersistentVolumeClaim)
	if !ok {
		return unexpected(a)
	}
	before, after := old.DeepCopy(), claim.DeepCopy()
	for _, c := range []*corev1.PersistentVolumeClaim{before, after} {
		c.Status.Capacity, c.Status.Conditions = nil, nil
		c.Status.AllocatedResources, c.Status.AllocatedResourceStatuses = nil, nil
		c.ManagedFields, c.ResourceVersion = nil, ""
	}
	if !equality.Semantic.DeepEqual(before, after) {
		return forbid(a, "node %q is not allowed to update fields other than status.quantity and status.conditions: %v",
			nodeName, diff.Diff(before, after))
	}
	return nil
}
