// Package attachdetach attaches volumes of CSI drivers to the nodes whose pods use them, and detaches them afterwards
// (https://kubernetes.io/docs/reference/command-line-tools-reference/kube-controller-manager/, persistentvolume-attach-
// detach-controller). It writes what is to be: a VolumeAttachment for each volume and node, which the driver's attacher
// fulfils; and status.volumesAttached of the node, which its kubelet waits for before it mounts.
//
// planNode is pure. The controller decides on one node at a time, so that a volume for one node is not given to two.
package attachdetach

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"quintet.dev/quintet/components/controllers/pods"
)

const (
	// unmountTimeout is how long a node that is not ready may keep volumes that no pod of it needs.
	unmountTimeout = 6 * time.Minute
	// attachTimeout is how long an attacher may take before pods are told.
	attachTimeout = 2 * time.Minute

	managedAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"
	keepAnnotation    = "volumes.kubernetes.io/keep-terminated-pod-volumes"
)

// want is a volume that pods of a node use.
type want struct {
	volume *v1.PersistentVolume
	pods   []*v1.Pod
}

// uniqueName is how nodes name the volume in their status.
func uniqueName(volume *v1.PersistentVolume) v1.UniqueVolumeName {
	return v1.UniqueVolumeName(driverPrefix(volume.Spec.CSI.Driver) + volume.Spec.CSI.VolumeHandle)
}

func driverPrefix(driver string) string { return "kubernetes.io/csi/" + driver + "^" }

// attachmentName is that of the VolumeAttachment, by which kubelets find it.
func attachmentName(volume *v1.PersistentVolume, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(volume.Spec.CSI.VolumeHandle+volume.Spec.CSI.Driver+node)))
}

// view is what a decision on a node reads. Its objects are read-only.
type view struct {
	name string
	node *v1.Node // nil if it is gone
	// wants are the volumes that pods of the node use, by the name of their attachment.
	wants map[string]want
	// attachments are the node's, volumes those of them that exist, by name.
	attachments []*storagev1.VolumeAttachment
	volumes     map[string]*v1.PersistentVolume
	// elsewhere are attachments of the wanted volumes to other nodes, and usersElsewhere the pods there that use them,
	// by the name of the volume.
	elsewhere      map[string][]*storagev1.VolumeAttachment
	usersElsewhere map[string][]*v1.Pod
	// idleSince is when an attachment was found without use first, by its name.
	idleSince   map[string]time.Time
	forceDetach bool
	now         time.Time
}

// plan is what to do about a node, in this order.
type plan struct {
	attach []want
	// blocked are wanted volumes that are attached to another node and can't be to two.
	blocked []want
	// report is status.volumesAttached of the node.
	report []v1.AttachedVolume
	// detach are attachments that are no longer needed. Those that are not in forced must not be in use, by what the API
	// server says after the node's report has been written.
	detach []*storagev1.VolumeAttachment
	forced map[string]bool
	// again is when to decide again without an event; 0: never.
	again time.Duration
}

// planNode decides which volumes a node gets and loses.
func planNode(v *view) plan {
	p := plan{forced: map[string]bool{}}
	exists := map[string]bool{}
	for _, attachment := range v.attachments {
		exists[attachment.Name] = true
		_, wanted := v.wants[attachment.Name]
		if !wanted && attachment.DeletionTimestamp == nil && p.drop(v, attachment) {
			continue
		}
		volume := v.volumes[*attachment.Spec.Source.PersistentVolumeName]
		if attachment.Status.Attached && attachment.DeletionTimestamp == nil && volume != nil {
			p.report = append(p.report, v1.AttachedVolume{Name: uniqueName(volume),
				DevicePath: attachment.Status.AttachmentMetadata["devicePath"]})
		}
	}
	slices.SortFunc(p.report, func(a, b v1.AttachedVolume) int {
		return strings.Compare(string(a.Name), string(b.Name))
	})
	for _, name := range sortedKeys(v.wants) {
		w := v.wants[name]
		switch others := v.elsewhere[w.volume.Name]; {
		case exists[name]:
		case len(others) > 0 && !sharable(w.volume):
			if slices.ContainsFunc(others, stays) {
				p.blocked = append(p.blocked, w)
			}
		default:
			p.attach = append(p.attach, w)
		}
	}
	return p
}

// stays tells whether an attachment is not being detached.
func stays(a *storagev1.VolumeAttachment) bool { return a.DeletionTimestamp == nil }

// drop decides on an attachment that no pod needs, and tells whether it is detached.
func (p *plan) drop(v *view, attachment *storagev1.VolumeAttachment) bool {
	volume := v.volumes[*attachment.Spec.Source.PersistentVolumeName]
	switch {
	case v.node == nil || outOfService(v.node):
		p.forced[attachment.Name] = true
	case inUse(v.node, attachment, volume):
		if !v.forceDetach || ready(v.node) {
			return false // a change of the node brings it back
		}
		left := unmountTimeout
		if since, known := v.idleSince[attachment.Name]; known {
			left -= v.now.Sub(since)
		}
		if left > 0 {
			if p.again == 0 || left < p.again {
				p.again = left
			}
			return false
		}
		p.forced[attachment.Name] = true
	}
	p.detach = append(p.detach, attachment)
	return true
}

func sortedKeys[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// inUse tells whether the node says that the volume is mounted. The name of a volume that is gone isn't known any more:
// then any volume of its driver counts.
func inUse(node *v1.Node, attachment *storagev1.VolumeAttachment, volume *v1.PersistentVolume) bool {
	if volume != nil {
		return slices.Contains(node.Status.VolumesInUse, uniqueName(volume))
	}
	return slices.ContainsFunc(node.Status.VolumesInUse, func(name v1.UniqueVolumeName) bool {
		return strings.HasPrefix(string(name), driverPrefix(attachment.Spec.Attacher))
	})
}

// sharable tells whether the volume may be attached to several nodes at once.
func sharable(volume *v1.PersistentVolume) bool {
	modes := volume.Spec.AccessModes
	return len(modes) == 0 || slices.Contains(modes, v1.ReadWriteMany) || slices.Contains(modes, v1.ReadOnlyMany)
}

func outOfService(node *v1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t v1.Taint) bool {
		return t.Key == v1.TaintNodeOutOfService && t.Effect == v1.TaintEffectNoExecute
	})
}

func ready(node *v1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
	})
}

// needsVolumes tells whether the pod's volumes are to be attached to its node.
func needsVolumes(pod *v1.Pod, node *v1.Node) bool {
	ended := pods.Ended(pod) || (pod.DeletionTimestamp != nil && nothingRuns(pod))
	return !ended || node.Annotations[keepAnnotation] == "true"
}

func nothingRuns(pod *v1.Pod) bool {
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses,
		pod.Status.EphemeralContainerStatuses} {
		for i := range list {
			if state := &list[i].State; state.Terminated == nil && state.Waiting == nil {
				return false
			}
		}
	}
	return true
}

// blockedMessage tells a pod why its volume isn't attached. Names of pods in other namespaces are none of its business.
func blockedMessage(pod *v1.Pod, volume string, users []*v1.Pod) string {
	prefix := fmt.Sprintf("Multi-Attach error for volume %q ", volume)
	if len(users) == 0 {
		return prefix + "Volume is already exclusively attached to one node and can't be attached to another"
	}
	var near []string
	for _, user := range users {
		if user.Namespace == pod.Namespace {
			near = append(near, user.Name)
		}
	}
	far := len(users) - len(near)
	switch {
	case len(near) == 0:
		return prefix + fmt.Sprintf("Volume is already used by %d pod(s) in different namespaces", far)
	case far > 0:
		return prefix + fmt.Sprintf("Volume is already used by pod(s) %s and %d pod(s) in different namespaces",
			strings.Join(near, ", "), far)
	}
	return prefix + "Volume is already used by pod(s) " + strings.Join(near, ", ")
}
