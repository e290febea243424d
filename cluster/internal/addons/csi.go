package addons

import (
	"path"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// CSIDriverOptions of a CSI driver in pods.
type CSIDriverOptions struct {
	// Driver is the name of the driver.
	Driver string
	Image  string
	Args   []string // after those that the add-on gives
}

const (
	// CSIDriver names the DaemonSet of the driver, in kube-system.
	CSIDriver = "csi-driver"
	// CSIStorageClass names the class whose volumes the driver makes.
	CSIStorageClass = "csi"

	kubeletDir = "/var/lib/kubelet"
	csiRoot    = "/var/lib/csi-driver"
)

// CSIDriverObjects are a CSI driver on each node, with its CSIDriver, a StorageClass and its permissions
// (https://kubernetes-csi.github.io/docs/deploying.html).
func CSIDriverObjects(o CSIDriverOptions) []runtime.Object {
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: CSIDriver, Namespace: metav1.NamespaceSystem}
	return append(role("system:"+CSIDriver, account,
		rule("", []string{"persistentvolumes"}, "get", "list", "watch", "create", "patch", "delete"),
		rule("", []string{"persistentvolumeclaims"}, "get", "list", "watch", "update"),
		rule("", []string{"persistentvolumeclaims/status"}, "patch"),
		rule("", []string{"events"}, "create", "patch", "update"),
		rule("storage.k8s.io", []string{"storageclasses"}, "get", "list", "watch"),
		rule("storage.k8s.io", []string{"volumeattachments"}, "get", "list", "watch", "patch"),
		rule("storage.k8s.io", []string{"volumeattachments/status"}, "patch")),
		&v1.ServiceAccount{ObjectMeta: meta(CSIDriver, nil)},
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: o.Driver}, Spec: storagev1.CSIDriverSpec{
			AttachRequired: ptr.To(true), PodInfoOnMount: ptr.To(true), FSGroupPolicy: ptr.To(storagev1.FileFSGroupPolicy),
			VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent,
				storagev1.VolumeLifecycleEphemeral},
		}},
		&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: CSIStorageClass}, Provisioner: o.Driver,
			ReclaimPolicy: ptr.To(v1.PersistentVolumeReclaimDelete), AllowVolumeExpansion: ptr.To(true),
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		},
		csiDaemonSet(o))
}

func csiDaemonSet(o CSIDriverOptions) *appsv1.DaemonSet {
	labels := map[string]string{appKey: CSIDriver}
	plugin := path.Join(kubeletDir, "plugins", o.Driver)
	directory := func(name, path string) v1.Volume {
		return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path,
			Type: ptr.To(v1.HostPathDirectoryOrCreate)}}}
	}
	return &appsv1.DaemonSet{ObjectMeta: meta(CSIDriver, labels), Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: v1.PodSpec{
			ServiceAccountName: CSIDriver, PriorityClassName: "system-node-critical",
			NodeSelector: map[string]string{v1.LabelOSStable: "linux"},
			Tolerations:  []v1.Toleration{{Operator: v1.TolerationOpExists}},
			Containers: []v1.Container{{
				Name: CSIDriver, Image: o.Image, ImagePullPolicy: v1.PullIfNotPresent,
				Args: append([]string{
					"--driver-name=" + o.Driver, "--node-id=$(NODE_NAME)", "--csi-endpoint=" + path.Join(plugin, "csi.sock"),
					"--registration-dir=" + path.Join(kubeletDir, "plugins_registry"), "--root-dir=" + csiRoot,
					"--call-log=/dev/stdout", "--provision", "--attach", "--resize",
				}, o.Args...),
				Env: []v1.EnvVar{{Name: "NODE_NAME", ValueFrom: &v1.EnvVarSource{
					FieldRef: &v1.ObjectFieldSelector{FieldPath: "spec.nodeName"},
				}}},
				// Mounts that are to reach the kubelet need it (Bidirectional), and so do loop devices.
				SecurityContext: &v1.SecurityContext{Privileged: ptr.To(true)},
				VolumeMounts: []v1.VolumeMount{
					{Name: "kubelet", MountPath: kubeletDir, MountPropagation: ptr.To(v1.MountPropagationBidirectional)},
					{Name: "root", MountPath: csiRoot},
				},
			}},
			Volumes: []v1.Volume{directory("kubelet", kubeletDir), directory("root", csiRoot)},
		}},
	}}
}
