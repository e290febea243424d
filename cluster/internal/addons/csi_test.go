package addons

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// The driver's socket is where it tells the kubelet, and what it mounts reaches the kubelet.
func TestCSIDriverObjects(t *testing.T) {
	var set *appsv1.DaemonSet
	var class *storagev1.StorageClass
	var driver *storagev1.CSIDriver
	for _, object := range CSIDriverObjects(CSIDriverOptions{Driver: "csi.example.com", Image: "driver:1",
		Args: []string{"--attach-limit=1"}}) {
		switch o := object.(type) {
		case *appsv1.DaemonSet:
			set = o
		case *storagev1.StorageClass:
			class = o
		case *storagev1.CSIDriver:
			driver = o
		}
	}
	if class.Provisioner != driver.Name || !*class.AllowVolumeExpansion ||
		*class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
		t.Errorf("class %+v of driver %s", class, driver.Name)
	}
	pod := set.Spec.Template.Spec
	c := pod.Containers[0]
	for _, want := range []string{"--driver-name=csi.example.com", "--attach-limit=1",
		"--csi-endpoint=/var/lib/kubelet/plugins/csi.example.com/csi.sock",
		"--registration-dir=/var/lib/kubelet/plugins_registry"} {
		if !slices.Contains(c.Args, want) {
			t.Errorf("%q lacks %s", c.Args, want)
		}
	}
	for _, mount := range c.VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v v1.Volume) bool { return v.Name == mount.Name })
		if i < 0 || pod.Volumes[i].HostPath == nil || pod.Volumes[i].HostPath.Path != mount.MountPath {
			t.Errorf("%+v isn't the same path of the node", mount)
		}
		if mount.MountPath == kubeletDir && *mount.MountPropagation != v1.MountPropagationBidirectional {
			t.Errorf("%+v", mount)
		}
	}
	if !*c.SecurityContext.Privileged || pod.ServiceAccountName == "" {
		t.Errorf("%+v", c.SecurityContext)
	}
}
