package suite

import (
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
)

func TestProbeCSI(t *testing.T) {
	driver := func(modes ...storagev1.VolumeLifecycleMode) runtime.Object {
		return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d"},
			Spec: storagev1.CSIDriverSpec{VolumeLifecycleModes: modes}}
	}
	class := func(provisioner string, grows *bool) runtime.Object {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Provisioner: provisioner,
			AllowVolumeExpansion: grows}
	}
	for name, test := range map[string]struct {
		objects                 []runtime.Object
		volumes, inline, expand bool
	}{
		"nothing":                  {},
		"a driver without a class": {objects: []runtime.Object{driver(storagev1.VolumeLifecycleEphemeral)}},
		"another's class":          {objects: []runtime.Object{driver(), class("x", ptr.To(true))}},
		"persistent volumes":       {objects: []runtime.Object{driver(), class("d", nil)}, volumes: true},
		"all": {objects: []runtime.Object{driver(storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral),
			class("d", ptr.To(true))}, volumes: true, inline: true, expand: true},
	} {
		c := &Cluster{Client: fake.NewClientset(test.objects...), Features: map[Feature]bool{}}
		if err := c.probeCSI(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c.Features[CSIVolumes] != test.volumes || c.Features[CSIInlineVolumes] != test.inline ||
			c.Features[CSIExpansion] != test.expand {
			t.Errorf("%s: %v", name, c.Features)
		}
	}
}
