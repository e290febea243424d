package podspec

import (
	corev1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// DropDisabled removes what belongs to features that are off, unless old (nil on create) has the same. Objects that
// another server with more features wrote are kept as they are.
func DropDisabled(on api.PodFeatures, new, old *corev1.PodSpec) {
	if !on.StopSignals && (old == nil || !usesStopSignals(old)) {
		eachLifecycle(new, dropStopSignal) // KEP-4960
	}
	if old == nil || old.SchedulingGroup == nil {
		new.SchedulingGroup = nil // KEP-4671
	}
	for i := range new.Volumes {
		if p := new.Volumes[i].Projected; p != nil && len(p.Sources) == 0 {
			p.Sources = nil // as upstream leaves it behind
		}
	}
	if !on.TrustBundles && (old == nil || !usesProjection(old, hasTrustBundle)) {
		eachProjection(new, func(p *corev1.VolumeProjection) { p.ClusterTrustBundle = nil }) // KEP-3257
	}
	if !on.Certificates && (old == nil || !usesProjection(old, hasPodCertificate)) {
		eachProjection(new, func(p *corev1.VolumeProjection) { p.PodCertificate = nil }) // KEP-4317
	}
}

func usesStopSignals(s *corev1.PodSpec) bool {
	found := false
	eachLifecycle(s, func(l **corev1.Lifecycle) { found = found || (*l).StopSignal != nil })
	return found
}

func dropStopSignal(l **corev1.Lifecycle) {
	if (*l).StopSignal == nil {
		return
	}
	(*l).StopSignal = nil
	if **l == (corev1.Lifecycle{}) {
		*l = nil
	}
}

func eachLifecycle(s *corev1.PodSpec, f func(**corev1.Lifecycle)) {
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			if list[i].Lifecycle != nil {
				f(&list[i].Lifecycle)
			}
		}
	}
	for i := range s.EphemeralContainers {
		if s.EphemeralContainers[i].Lifecycle != nil {
			f(&s.EphemeralContainers[i].Lifecycle)
		}
	}
}

func hasTrustBundle(p *corev1.VolumeProjection) bool    { return p.ClusterTrustBundle != nil }
func hasPodCertificate(p *corev1.VolumeProjection) bool { return p.PodCertificate != nil }

func usesProjection(s *corev1.PodSpec, has func(*corev1.VolumeProjection) bool) bool {
	found := false
	eachProjection(s, func(p *corev1.VolumeProjection) { found = found || has(p) })
	return found
}

func eachProjection(s *corev1.PodSpec, f func(*corev1.VolumeProjection)) {
	for i := range s.Volumes {
		if p := s.Volumes[i].Projected; p != nil {
			for j := range p.Sources {
				f(&p.Sources[j])
			}
		}
	}
}
