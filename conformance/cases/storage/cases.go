// Package storage holds the cases of persistent volumes: how claims get them, keep them and lose them.
package storage

import (
	"quintet.dev/quintet/conformance/suite"
)

const (
	volumes   = "https://kubernetes.io/docs/concepts/storage/persistent-volumes/"
	classes   = "https://kubernetes.io/docs/concepts/storage/storage-classes/"
	dynamic   = "https://kubernetes.io/docs/concepts/storage/dynamic-provisioning/"
	ephemeral = "https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#generic-ephemeral-volumes"
	inline    = "https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#csi-ephemeral-volumes"
	sets      = "https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#stable-storage"
)

// Cases returns the cases of persistent volumes. Those that need pods to run, or a default class, say so.
func Cases() []suite.Case {
	made := []suite.Feature{suite.HasScheduler, suite.RunsPods, suite.DefaultStorage}
	all := []suite.Case{
		{ID: "storage/static-binding", Run: staticBinding, Reference: volumes + "#binding",
			Requirement: "A claim MUST be bound to the smallest volume that has its size, class, modes and labels."},
		{ID: "storage/reserved-volume", Run: reservedVolume, Reference: volumes + "#reserving-a-persistentvolume",
			Requirement: "A volume that names a claim MUST be bound to that claim and to no other."},
		{ID: "storage/wait-for-consumer", Run: waitForConsumer, Reference: classes + "#volume-binding-mode",
			Requirement: "A claim of a class with WaitForFirstConsumer MUST stay pending, and say why, until a pod uses it."},
		{ID: "storage/retain", Run: retain, Reference: volumes + "#retain",
			Requirement: "A volume with the policy Retain MUST stay as Released when its claim is gone, and MUST NOT be given " +
				"to another."},
		{ID: "storage/lost-claim", Run: lostClaim, Reference: volumes + "#phase",
			Requirement: "A claim whose volume is gone MUST be Lost."},
		{ID: "storage/volume-protection", Run: volumeProtection, Reference: volumes + "#storage-object-in-use-protection",
			Requirement: "A bound volume that is deleted MUST stay until its claim is gone."},
		{ID: "storage/claim-protection", Run: claimProtection, Reference: volumes + "#storage-object-in-use-protection",
			Needs:       made,
			Requirement: "A claim that is deleted MUST stay until no pod uses it."},
		{ID: "storage/ephemeral-claim", Run: ephemeralClaim, Reference: ephemeral,
			Requirement: "A pod with a generic ephemeral volume MUST get a claim of its own, and MUST NOT use a claim of that " +
				"name that isn't its."},
		{ID: "storage/ephemeral-volume", Run: ephemeralVolume, Reference: ephemeral, Needs: made,
			Requirement: "A generic ephemeral volume MUST be there for its pod, and its claim MUST go with the pod."},
		{ID: "storage/default-class", Run: defaultClass, Reference: dynamic + "#defaulting-behavior",
			Needs:       []suite.Feature{suite.DefaultStorage},
			Requirement: "A claim without a class MUST get the default class."},
		{ID: "storage/dynamic", Run: dynamicVolume, Reference: dynamic, Needs: made,
			Requirement: "A claim of the default class MUST get a volume when a pod uses it, whose data survive the pod."},
		{ID: "storage/dynamic-delete", Run: dynamicDelete, Reference: volumes + "#delete", Needs: made,
			Requirement: "A volume that was made on demand with the policy Delete MUST be deleted after its claim."},
		{ID: "storage/statefulset", Run: statefulSet, Reference: sets, Needs: made,
			Requirement: "Each pod of a StatefulSet MUST have a claim of its own, whose data a replacement of the pod finds " +
				"again."},
	}
	all = append(all, csiCases()...)
	for i := range all {
		all[i].Component, all[i].Since = suite.Controllers, "0.2"
		all[i].Needs = append(all[i].Needs, suite.HasControllers)
	}
	return all
}

// csiCases are those of the volumes of CSI drivers.
func csiCases() []suite.Case {
	needs := func(feature suite.Feature) []suite.Feature {
		return []suite.Feature{suite.HasScheduler, suite.RunsPods, feature}
	}
	return []suite.Case{
		{ID: "storage/csi-volume", Run: csiVolume, Reference: volumes + "#types-of-persistent-volumes",
			Needs: needs(suite.CSIVolumes),
			Requirement: "A volume of a CSI driver MUST be attached and mounted with the pod's group for its pod, keep its " +
				"data, and MUST be detached after the pod."},
		{ID: "storage/csi-inline", Run: csiInline, Reference: inline, Needs: needs(suite.CSIInlineVolumes),
			Requirement: "A CSI volume that a pod describes MUST be there for that pod alone, without a claim."},
		{ID: "storage/csi-block", Run: csiBlock, Reference: volumes + "#raw-block-volume-support",
			Needs: needs(suite.CSIBlock),
			Requirement: "A claim of volumeMode Block MUST be a device of its size in the container, and the next " +
				"pod MUST find what was written to it."},
		{ID: "storage/csi-block-expansion", Run: csiBlockExpansion,
			Reference:   volumes + "#expanding-persistent-volumes-claims",
			Needs:       append(needs(suite.CSIBlock), suite.CSIExpansion),
			Timeout:     expansionTimeout + suite.DefaultTimeout,
			Requirement: "The device of a claim in use that asks for more MUST grow without a restart of its pod."},
		{ID: "storage/csi-expansion", Run: csiExpansion, Reference: volumes + "#expanding-persistent-volumes-claims",
			Needs: needs(suite.CSIExpansion), Timeout: expansionTimeout + suite.DefaultTimeout,
			Requirement: "A claim in use that asks for more MUST grow without a restart of its pod."},
	}
}
