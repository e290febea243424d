package podspec

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// TestDropDisabled: what features that are off would need goes, unless the object has something of it already.
func TestDropDisabled(t *testing.T) {
	type spec = corev1.PodSpec
	signal := func(l *corev1.Lifecycle) spec {
		return spec{Containers: []corev1.Container{{Name: "c", Lifecycle: l}}}
	}
	stop := &corev1.Lifecycle{StopSignal: new(corev1.SIGTERM)}
	hook := &corev1.LifecycleHandler{}
	group := func(g *corev1.PodSchedulingGroup) spec { return spec{SchedulingGroup: g} }
	projected := func(sources ...corev1.VolumeProjection) spec {
		return spec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: volumeSource{
			Projected: &corev1.ProjectedVolumeSource{Sources: sources}}}}}
	}
	bundle := corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Path: "a"}}
	certificate := corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{KeyType: "ED25519"}}
	token := corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}}
	nothing := corev1.VolumeProjection{}
	init := spec{InitContainers: []corev1.Container{{Name: "i", Lifecycle: stop}}}
	for name, c := range map[string]struct {
		new, old  spec
		has, want spec // where old has something of the feature, and where not
	}{
		"signal alone":   {signal(stop), init, signal(stop), signal(nil)},
		"signal of init": {init, signal(stop), init, spec{InitContainers: []corev1.Container{{Name: "i"}}}},
		"signal beside a hook": {signal(&corev1.Lifecycle{StopSignal: stop.StopSignal, PreStop: hook}), init,
			signal(&corev1.Lifecycle{StopSignal: stop.StopSignal, PreStop: hook}),
			signal(&corev1.Lifecycle{PreStop: hook})},
		"empty life cycle": {signal(&corev1.Lifecycle{}), init, signal(&corev1.Lifecycle{}),
			signal(&corev1.Lifecycle{})},
		"scheduling group": {group(&corev1.PodSchedulingGroup{}), group(&corev1.PodSchedulingGroup{}),
			group(&corev1.PodSchedulingGroup{}), group(nil)},
		"trust bundle": {projected(token, bundle), projected(bundle), projected(token, bundle),
			projected(token, nothing)},
		"pod certificate": {projected(certificate, token), projected(certificate), projected(certificate, token),
			projected(nothing, token)},
		"one for the other": {projected(bundle, certificate), projected(certificate),
			projected(nothing, certificate), projected(nothing, nothing)},
		"empty projection": {projected([]corev1.VolumeProjection{}...), projected(), projected(), projected()},
	} {
		for old, want := range map[*spec]*spec{nil: &c.want, {}: &c.want, &c.old: &c.has} {
			got := c.new.DeepCopy()
			if DropDisabled(api.PodFeatures{}, got, old); !reflect.DeepEqual(got, want) {
				t.Errorf("%s, from %+v: got %+v, want %+v", name, old, got, want)
			}
		}
	}
	ephemeral := &spec{EphemeralContainers: []corev1.EphemeralContainer{
		{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Lifecycle: stop.DeepCopy()}}}}
	if DropDisabled(api.PodFeatures{}, ephemeral, &spec{}); ephemeral.EphemeralContainers[0].Lifecycle != nil {
		t.Errorf("an ephemeral container keeps %+v", ephemeral.EphemeralContainers[0].Lifecycle)
	}
}
