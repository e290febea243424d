package spec

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/volumes"
)

// Mounts below a read-only mount are read-only as far as the pod asks for it and the engine can (KEP-3857).
func TestRecursiveReadOnly(t *testing.T) {
	enabled, possible, disabled := v1.RecursiveReadOnlyEnabled, v1.RecursiveReadOnlyIfPossible,
		v1.RecursiveReadOnlyDisabled
	for name, test := range map[string]struct {
		mode        *v1.RecursiveReadOnlyMode
		able        bool
		want, fails bool
	}{
		"not asked for":         {nil, true, false, false},
		"disabled":              {&disabled, true, false, false},
		"enabled":               {&enabled, true, true, false},
		"enabled, unable":       {&enabled, false, false, true},
		"if possible":           {&possible, true, true, false},
		"if possible, not able": {&possible, false, false, false},
	} {
		b := &Builder{RecursiveReadOnly: test.able}
		r := &Request{Pod: &v1.Pod{}, Volumes: map[string]volumes.Mounted{"v": {Path: "/v"}}, Container: &v1.Container{
			VolumeMounts: []v1.VolumeMount{{Name: "v", MountPath: "/v", ReadOnly: true, RecursiveReadOnly: test.mode}}}}
		mount, err := b.volumeMount(r, 0, nil)
		if mount.RecursiveReadOnly != test.want || (err != nil) != test.fails {
			t.Errorf("%s: %+v, %v", name, mount, err)
		}
	}
}
