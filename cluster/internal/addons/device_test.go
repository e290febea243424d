package addons

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// The driver runs on every node, where kubelet and engine find what it makes, and its class has its devices alone.
func TestDeviceDriverObjects(t *testing.T) {
	var set *appsv1.DaemonSet
	var class *resourcev1.DeviceClass
	var account *v1.ServiceAccount
	var role *rbacv1.ClusterRole
	var binding *rbacv1.ClusterRoleBinding
	for _, object := range DeviceDriverObjects(DeviceDriverOptions{Driver: "gpu.example.com",
		ExtendedResource: "example.com/gpu", Image: "driver:1", Args: []string{"--devices=4"}}) {
		switch o := object.(type) {
		case *appsv1.DaemonSet:
			set = o
		case *resourcev1.DeviceClass:
			class = o
		case *v1.ServiceAccount:
			account = o
		case *rbacv1.ClusterRole:
			role = o
		case *rbacv1.ClusterRoleBinding:
			binding = o
		default:
			t.Errorf("unexpected %T", o)
		}
	}
	if class.Name != "gpu.example.com" || *class.Spec.ExtendedResourceName != "example.com/gpu" ||
		class.Spec.Selectors[0].CEL.Expression != `device.driver == "gpu.example.com"` {
		t.Errorf("class %+v", class)
	}
	pod := set.Spec.Template.Spec
	if pod.ServiceAccountName != account.Name || set.Namespace != account.Namespace ||
		binding.RoleRef.Name != role.Name || binding.Subjects[0].Name != account.Name ||
		binding.Subjects[0].Namespace != account.Namespace {
		t.Errorf("account %s of pods, %s, %+v to role %s", pod.ServiceAccountName, account.Name, binding, role.Name)
	}
	if !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Resources, "resourceslices") && slices.Contains(r.Verbs, "create")
	}) {
		t.Errorf("the driver may not publish its devices: %+v", role.Rules)
	}
	for key, value := range set.Spec.Selector.MatchLabels {
		if set.Spec.Template.Labels[key] != value {
			t.Errorf("the pods of the DaemonSet lack the label %s", key)
		}
	}
	if len(pod.Tolerations) != 1 || pod.Tolerations[0].Operator != v1.TolerationOpExists || pod.Tolerations[0].Key != "" {
		t.Errorf("tolerations %+v leave nodes out", pod.Tolerations)
	}
	c := pod.Containers[0]
	for _, want := range []string{"--node-name=$(NODE_NAME)", "--driver-name=gpu.example.com",
		"--kubelet-dir=/var/lib/kubelet", "--root-dir=/var/lib/device-driver", "--cdi-dir=/var/run/cdi", "--devices=4"} {
		if !slices.Contains(c.Args, want) {
			t.Errorf("%q lacks %s", c.Args, want)
		}
	}
	if c.Env[0].Name != "NODE_NAME" || c.Env[0].ValueFrom.FieldRef.FieldPath != "spec.nodeName" {
		t.Errorf("environment %+v", c.Env)
	}
	if len(c.VolumeMounts) != 3 {
		t.Errorf("mounts %+v", c.VolumeMounts)
	}
	for _, mount := range c.VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v v1.Volume) bool { return v.Name == mount.Name })
		if i < 0 || pod.Volumes[i].HostPath == nil || pod.Volumes[i].HostPath.Path != mount.MountPath {
			t.Errorf("%+v isn't the same path of the node", mount)
		}
	}
	if c.Image != "driver:1" || !*c.SecurityContext.Privileged {
		t.Errorf("image %s, %+v", c.Image, c.SecurityContext)
	}
}
