package why

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
)

const (
	isDefaultClass     = "storageclass.kubernetes.io/is-default-class"
	betaIsDefaultClass = "storageclass.beta.kubernetes.io/is-default-class"
	provisioningFailed = "ProvisioningFailed" // reason of the events of the volume controller and of provisioners
)

func (s *Snapshot) persistentVolumeClaim(c *corev1.PersistentVolumeClaim) (State, []Cause) {
	switch c.Status.Phase {
	case corev1.ClaimBound:
		return resizing(c)
	case corev1.ClaimLost:
		return Failed, []Cause{{Reason: "ClaimLost",
			Message: fmt.Sprintf("Its PersistentVolume %s does not exist any more, and with it its data.", c.Spec.VolumeName)}}
	}
	name := ptr.Deref(c.Spec.StorageClassName, c.Annotations[corev1.BetaStorageClassAnnotation])
	if e := s.lastEvent(c.UID, provisioningFailed, "VolumeMismatch", "ClaimMisbound"); e != nil && s.holds(e, name) {
		cause := Cause{Reason: e.Reason, Message: e.Message}
		if e.Reason == provisioningFailed {
			cause.Help = "See the log of the provisioner."
		}
		return Pending, []Cause{cause}
	}
	if name == "" {
		if c.Spec.StorageClassName == nil && s.known("StorageClass") && s.defaultClass() == nil {
			return Pending, []Cause{{Reason: "NoDefaultClass",
				Message: "It names no StorageClass, and none of the cluster's is the default.",
				Help:    "Set storageClassName, or annotate a class with " + isDefaultClass + `: "true".`}}
		}
		return Pending, []Cause{{Reason: "NoMatchingVolume", Message: "No free PersistentVolume fits it.",
			Help: "Create one of its class, access modes, volume mode and size, or set storageClassName."}}
	}
	class := s.class(name)
	if class == nil {
		if !s.known("StorageClass") {
			return Pending, []Cause{{Reason: "NotBound", Message: "It is not bound."}}
		}
		return Pending, []Cause{{Reason: "ClassMissing", Message: fmt.Sprintf("StorageClass %s does not exist.", name),
			Help: "Create it, or set another storageClassName."}}
	}
	if ptr.Deref(class.VolumeBindingMode, "") == storagev1.VolumeBindingWaitForFirstConsumer &&
		c.Annotations["volume.kubernetes.io/selected-node"] == "" {
		return Pending, []Cause{{Reason: "WaitForFirstConsumer",
			Message: "Its class binds when a pod that uses it is scheduled" + s.usersOf(c) + ".",
			Help:    "Create a pod that uses it."}}
	}
	return Pending, []Cause{{Reason: "WaitsForProvisioner",
		Message: fmt.Sprintf("The provisioner %s has not yet created a volume.", class.Provisioner),
		Help:    "See whether the provisioner runs, and its log."}}
}

// holds tells whether an event of a claim of a class can still be true. Provisioning that failed for want of the class,
// or before the class was created, says nothing once there is one, and without a class its absence says more.
func (s *Snapshot) holds(e *corev1.Event, className string) bool {
	if e.Reason != provisioningFailed || className == "" {
		return true
	}
	class := s.class(className)
	if class == nil {
		return !s.known("StorageClass")
	}
	return !at(e).Before(class.CreationTimestamp.Time) &&
		!strings.Contains(e.Message, fmt.Sprintf("storageclass.storage.k8s.io %q not found", className))
}

func resizing(c *corev1.PersistentVolumeClaim) (State, []Cause) {
	for _, each := range c.Status.Conditions {
		switch each.Type {
		case corev1.PersistentVolumeClaimFileSystemResizePending:
			return Pending, []Cause{{Reason: "FileSystemResizePending", Message: or(each.Message,
				"Its file system grows when a pod that uses it starts."), Help: "Start, or restart, a pod that uses it."}}
		case corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError,
			corev1.PersistentVolumeClaimVolumeModifyVolumeError:
			return Pending, []Cause{{Reason: string(each.Type), Message: each.Message}}
		case corev1.PersistentVolumeClaimResizing:
			return Pending, []Cause{{Reason: "Resizing", Message: or(each.Message, "Its volume is being resized.")}}
		}
	}
	return Ready, nil
}

func (s *Snapshot) class(name string) *storagev1.StorageClass {
	for i := range s.Classes {
		if s.Classes[i].Name == name {
			return &s.Classes[i]
		}
	}
	return nil
}

func (s *Snapshot) defaultClass() *storagev1.StorageClass {
	for i := range s.Classes {
		if a := s.Classes[i].Annotations; a[isDefaultClass] == "true" || a[betaIsDefaultClass] == "true" {
			return &s.Classes[i]
		}
	}
	return nil
}

// usersOf names the pods that use a claim and have no node yet, in parentheses; "" without.
func (s *Snapshot) usersOf(c *corev1.PersistentVolumeClaim) string {
	var names []string
	for i := range s.Pods {
		p := &s.Pods[i]
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == c.Name {
				names = append(names, p.Name)
			}
		}
	}
	if len(names) == 0 {
		return "; none uses it"
	}
	return "; that is asked for by " + list(names)
}
