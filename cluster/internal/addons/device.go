package addons

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// DeviceDriverOptions of a driver of devices in pods.
type DeviceDriverOptions struct {
	// Driver is the name of the DRA driver, and of its DeviceClass.
	Driver string
	// ExtendedResource is the resource for which pods get a claim of the class (KEP-5004).
	ExtendedResource string
	Image            string
	Args             []string // after those that the add-on gives
}

const (
	// DeviceDriver names the DaemonSet of the driver, in kube-system.
	DeviceDriver = "device-driver"

	deviceRoot = "/var/lib/device-driver"
	cdiDir     = "/var/run/cdi"
)

// DeviceDriverObjects are a driver of devices on each node, with its DeviceClass and its permissions.
func DeviceDriverObjects(o DeviceDriverOptions) []runtime.Object {
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: DeviceDriver, Namespace: metav1.NamespaceSystem}
	return append(role("system:"+DeviceDriver, account,
		rule("", []string{"nodes"}, "get", "list", "watch"),
		rule(resourcev1.GroupName, []string{"resourceclaims"}, "get"),
		rule(resourcev1.GroupName, []string{"resourceslices"}, "get", "list", "watch", "create", "update", "patch",
			"delete")),
		&v1.ServiceAccount{ObjectMeta: meta(DeviceDriver, nil)},
		&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: o.Driver}, Spec: resourcev1.DeviceClassSpec{
			ExtendedResourceName: &o.ExtendedResource,
			Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
				Expression: fmt.Sprintf("device.driver == %q", o.Driver)}}},
		}},
		deviceDaemonSet(o))
}

func deviceDaemonSet(o DeviceDriverOptions) *appsv1.DaemonSet {
	labels := map[string]string{appKey: DeviceDriver}
	var volumes []v1.Volume
	var mounts []v1.VolumeMount
	for _, v := range []struct{ name, path string }{{"kubelet", kubeletDir}, {"root", deviceRoot}, {"cdi", cdiDir}} {
		volumes = append(volumes, v1.Volume{Name: v.name, VolumeSource: v1.VolumeSource{
			HostPath: &v1.HostPathVolumeSource{Path: v.path, Type: ptr.To(v1.HostPathDirectoryOrCreate)}}})
		mounts = append(mounts, v1.VolumeMount{Name: v.name, MountPath: v.path})
	}
	return &appsv1.DaemonSet{ObjectMeta: meta(DeviceDriver, labels), Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: v1.PodSpec{
			ServiceAccountName: DeviceDriver, PriorityClassName: "system-node-critical",
			NodeSelector: map[string]string{v1.LabelOSStable: "linux"},
			Tolerations:  []v1.Toleration{{Operator: v1.TolerationOpExists}},
			Containers: []v1.Container{{
				Name: DeviceDriver, Image: o.Image, ImagePullPolicy: v1.PullIfNotPresent,
				Args: append([]string{
					"--node-name=$(NODE_NAME)", "--driver-name=" + o.Driver, "--kubelet-dir=" + kubeletDir,
					"--root-dir=" + deviceRoot, "--cdi-dir=" + cdiDir, "--call-log=/dev/stdout",
				}, o.Args...),
				Env: []v1.EnvVar{{Name: "NODE_NAME", ValueFrom: &v1.EnvVarSource{
					FieldRef: &v1.ObjectFieldSelector{FieldPath: "spec.nodeName"},
				}}},
				// The sockets of kubelets are those of root, whatever labels the machine gives files.
				SecurityContext: &v1.SecurityContext{Privileged: ptr.To(true)},
				VolumeMounts:    mounts,
			}},
			Volumes: volumes,
		}},
	}}
}
