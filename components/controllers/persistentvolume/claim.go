package persistentvolume

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// event is one to record on the object that a plan is of.
type event struct {
	kind, reason, message string
}

func normal(reason, message string) event  { return event{v1.EventTypeNormal, reason, message} }
func warning(reason, message string) event { return event{v1.EventTypeWarning, reason, message} }

// claimView is what a decision on a claim reads. Its objects are read-only.
type claimView struct {
	volumes []*v1.PersistentVolume
	classes []*storagev1.StorageClass
	// waiting are the names of pods that use the claim and have no node yet.
	waiting []string
	// provisioning tells whether volumes are made on demand (--enable-dynamic-provisioning).
	provisioning bool
}

func (v *claimView) volume(name string) *v1.PersistentVolume {
	for _, volume := range v.volumes {
		if volume.Name == name {
			return volume
		}
	}
	return nil
}

func (v *claimView) class(name string) *storagev1.StorageClass {
	for _, class := range v.classes {
		if class.Name == name {
			return class
		}
	}
	return nil
}

// claimPlan is what to do about a claim. At most one of bind, class, provisioner and phase is set.
type claimPlan struct {
	bind        *v1.PersistentVolume          // becomes one with the claim
	class       string                        // the default class, which the claim is to get
	provisioner string                        // the component that is asked for a volume
	phase       v1.PersistentVolumeClaimPhase // to which the claim is set, without a volume
	events      []event
	// onChange is recorded only if the phase was another one.
	onChange event
}

// planClaim decides on a claim (https://kubernetes.io/docs/concepts/storage/persistent-volumes/#binding). It changes
// nothing; an error says that the decision can't be made now.
func planClaim(claim *v1.PersistentVolumeClaim, view *claimView) (claimPlan, error) {
	switch {
	case metav1.HasAnnotation(claim.ObjectMeta, storagehelpers.AnnBindCompleted):
		return planBoundClaim(claim, view), nil
	case claim.Spec.VolumeName != "":
		return planRequestedVolume(claim, view)
	}
	delayed, err := delayedBinding(claim, view)
	if err != nil {
		return claimPlan{}, err
	}
	volume, err := bestVolume(claim, view.volumes, delayed)
	if err != nil {
		return claimPlan{}, err
	}
	if volume != nil {
		return claimPlan{bind: volume}, nil
	}
	if !storagehelpers.PersistentVolumeClaimHasClass(claim) {
		if class := defaultClass(view.classes); class != nil {
			return claimPlan{class: class.Name}, nil
		}
	}
	switch {
	case delayed && !storagehelpers.IsDelayBindingProvisioning(claim):
		return claimPlan{phase: v1.ClaimPending, events: []event{waitingEvent(view.waiting)}}, nil
	case storagehelpers.GetPersistentVolumeClaimClass(claim) != "":
		return planProvisioning(claim, view), nil
	}
	return claimPlan{phase: v1.ClaimPending, events: []event{normal("FailedBinding",
		"no persistent volumes available for this claim and no storage class is set")}}, nil
}

// planBoundClaim decides on a claim whose binding was complete once.
func planBoundClaim(claim *v1.PersistentVolumeClaim, view *claimView) claimPlan {
	lost := func(reason, message string) claimPlan {
		return claimPlan{phase: v1.ClaimLost, onChange: warning(reason, message)}
	}
	if claim.Spec.VolumeName == "" {
		return lost("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
	}
	switch volume := view.volume(claim.Spec.VolumeName); {
	case volume == nil:
		return lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	case volume.Spec.ClaimRef == nil, volume.Spec.ClaimRef.UID == claim.UID:
		return claimPlan{bind: volume}
	}
	return lost("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
}

// planRequestedVolume decides on a claim that names its volume.
func planRequestedVolume(claim *v1.PersistentVolumeClaim, view *claimView) (claimPlan, error) {
	volume := view.volume(claim.Spec.VolumeName)
	if volume == nil {
		return claimPlan{phase: v1.ClaimPending}, nil
	}
	if volume.Spec.ClaimRef == nil {
		if why := mismatch(volume, claim); why != "" {
			return claimPlan{phase: v1.ClaimPending, events: []event{warning("VolumeMismatch",
				fmt.Sprintf("Cannot bind to requested volume %q: %s", volume.Name, why))}}, nil
		}
		return claimPlan{bind: volume}, nil
	}
	if storagehelpers.IsVolumeBoundToClaim(volume, claim) {
		return claimPlan{bind: volume}, nil
	}
	plan := claimPlan{phase: v1.ClaimPending, events: []event{warning("FailedBinding",
		fmt.Sprintf("volume %q already bound to a different claim.", volume.Name))}}
	if metav1.HasAnnotation(claim.ObjectMeta, storagehelpers.AnnBoundByController) {
		// The annotation of a complete binding was taken off by hand: the phase is left for people to see.
		plan.phase = ""
	}
	return plan, nil
}

// mismatch says why the volume is not fit for the claim that names it; "" if it is.
func mismatch(volume *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) string {
	requested, capacity := claim.Spec.Resources.Requests[v1.ResourceStorage], volume.Spec.Capacity[v1.ResourceStorage]
	switch {
	case volume.DeletionTimestamp != nil:
		return fmt.Sprintf("the volume is marked for deletion %q", volume.Name)
	case capacity.Cmp(requested) < 0:
		return "requested PV is too small"
	case storagehelpers.GetPersistentVolumeClass(volume) != storagehelpers.GetPersistentVolumeClaimClass(claim):
		return "storageClassName does not match"
	case deref(volume.Spec.VolumeAttributesClassName) != deref(claim.Spec.VolumeAttributesClassName):
		return "volumeAttributesClassName does not match"
	case storagehelpers.CheckVolumeModeMismatches(&claim.Spec, &volume.Spec):
		return "incompatible volumeMode"
	case !storagehelpers.CheckAccessModes(claim, volume):
		return "incompatible accessMode"
	}
	return ""
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// delayedBinding tells whether the claim waits for the scheduler to choose a node.
func delayedBinding(claim *v1.PersistentVolumeClaim, view *claimView) (bool, error) {
	name := storagehelpers.GetPersistentVolumeClaimClass(claim)
	class := view.class(name)
	if name == "" || class == nil {
		return false, nil
	}
	if class.VolumeBindingMode == nil {
		return false, fmt.Errorf("VolumeBindingMode not set for StorageClass %q", name)
	}
	return *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer, nil
}

// bestVolume returns the smallest volume that is fit for the claim, of those with the fewest access modes beyond the
// ones that it asks for; nil if there is none. With delayed, only a volume that is reserved for the claim is.
func bestVolume(
	claim *v1.PersistentVolumeClaim, volumes []*v1.PersistentVolume, delayed bool,
) (*v1.PersistentVolume, error) {
	groups := map[string][]*v1.PersistentVolume{}
	for _, volume := range volumes {
		if storagehelpers.CheckAccessModes(claim, volume) {
			modes := accessModes(volume)
			groups[modes] = append(groups[modes], volume)
		}
	}
	order := make([]string, 0, len(groups))
	for modes := range groups {
		order = append(order, modes)
	}
	slices.SortFunc(order, func(a, b string) int {
		if c := strings.Count(a, ",") - strings.Count(b, ","); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	for _, modes := range order {
		fit := groups[modes]
		slices.SortFunc(fit, func(a, b *v1.PersistentVolume) int { return strings.Compare(a.Name, b.Name) })
		volume, err := storagehelpers.FindMatchingVolume(claim, fit, nil, nil, delayed, true)
		if err != nil || volume != nil {
			return volume, err
		}
	}
	return nil, nil
}

// accessModes returns the modes of a volume in one order, whatever order they are listed in.
func accessModes(volume *v1.PersistentVolume) string {
	var modes []string
	for _, mode := range volume.Spec.AccessModes {
		modes = append(modes, string(mode))
	}
	slices.Sort(modes)
	return strings.Join(slices.Compact(modes), ",")
}

// defaultClass returns the class that claims without one get: of several, the newest
// (https://kubernetes.io/docs/concepts/storage/storage-classes/#default-storageclass).
func defaultClass(classes []*storagev1.StorageClass) *storagev1.StorageClass {
	var newest *storagev1.StorageClass
	for _, class := range classes {
		if class.Annotations[defaultAnnotation] != "true" && class.Annotations[betaDefaultAnnotation] != "true" {
			continue
		}
		if newest == nil || newest.CreationTimestamp.Before(&class.CreationTimestamp) ||
			(newest.CreationTimestamp.Equal(&class.CreationTimestamp) && class.Name < newest.Name) {
			newest = class
		}
	}
	return newest
}

const (
	defaultAnnotation     = "storageclass.kubernetes.io/is-default-class"
	betaDefaultAnnotation = "storageclass.beta.kubernetes.io/is-default-class"
)

// waitingEvent tells what a claim with delayed binding waits for.
func waitingEvent(pods []string) event {
	switch len(pods) {
	case 0:
		return normal("WaitForFirstConsumer", "waiting for first consumer to be created before binding")
	case 1:
		return normal("WaitForPodScheduled", fmt.Sprintf("waiting for pod %s to be scheduled", pods[0]))
	}
	return normal("WaitForPodScheduled",
		fmt.Sprintf("waiting for pods %s to be scheduled", strings.Join(pods, ",")))
}

// inTree begins the names of provisioners that were part of Kubernetes itself.
const inTree = "kubernetes.io/"

// planProvisioning asks the provisioner of the claim's class for a volume.
func planProvisioning(claim *v1.PersistentVolumeClaim, view *claimView) claimPlan {
	if !view.provisioning {
		return claimPlan{}
	}
	name := storagehelpers.GetPersistentVolumeClaimClass(claim)
	class := view.class(name)
	if class == nil {
		return claimPlan{events: []event{warning("ProvisioningFailed",
			fmt.Sprintf("storageclass.storage.k8s.io %q not found", name))}}
	}
	provisioner := class.Provisioner
	if successor := migratedTo[provisioner]; successor != "" {
		provisioner = successor
	}
	if strings.HasPrefix(provisioner, inTree) {
		return claimPlan{events: []event{warning("ProvisioningFailed",
			"no volume plugin matched name: "+provisioner)}}
	}
	return claimPlan{provisioner: provisioner, events: []event{normal("ExternalProvisioning", fmt.Sprintf(
		"Waiting for a volume to be created either by the external provisioner '%s' or manually by the system "+
			"administrator. If volume creation is delayed, please verify that the provisioner is running and "+
			"correctly registered.", provisioner))}}
}

// migratedTo are the CSI drivers that took over from provisioners of Kubernetes itself (https://kep.k8s.io/625).
var migratedTo = map[string]string{
	"kubernetes.io/aws-ebs":         "ebs.csi.aws.com",
	"kubernetes.io/azure-disk":      "disk.csi.azure.com",
	"kubernetes.io/azure-file":      "file.csi.azure.com",
	"kubernetes.io/cinder":          "cinder.csi.openstack.org",
	"kubernetes.io/gce-pd":          "pd.csi.storage.gke.io",
	"kubernetes.io/portworx-volume": "pxd.portworx.com",
	"kubernetes.io/vsphere-volume":  "csi.vsphere.vmware.com",
}
