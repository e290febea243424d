package kubelet

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// enduranceObjects are what the pods need of the API.
func enduranceObjects() []k8sruntime.Object {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "gpu", UID: "claim-uid"}}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{
			{Request: "a", Driver: enduranceDRA, Pool: "p", Device: "d0"}}}}
	for _, name := range []string{"service", "job"} {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{
			Resource: "pods", Name: name, UID: types.UID("uid-" + name)})
	}
	return []k8sruntime.Object{
		claim,
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: enduranceCSI},
			Spec: storagev1.CSIDriverSpec{AttachRequired: ptr.To(false)}},
		&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "config"}, Data: map[string]string{"a": "b"}},
		&v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "pvc-uid"},
			Spec:       v1.PersistentVolumeClaimSpec{VolumeName: "pv"},
			Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
		},
		&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			ClaimRef:    &v1.ObjectReference{Namespace: "ns", Name: "data", UID: "pvc-uid"},
			PersistentVolumeSource: v1.PersistentVolumeSource{
				CSI: &v1.CSIPersistentVolumeSource{Driver: enduranceCSI, VolumeHandle: "h"}},
		}},
	}
}

// endurancePod has all that a pod can ask of a kubelet to do: an init container, a sidecar, probes, hooks, volumes of
// each kind and a device. The pod called job runs to its end.
func endurancePod(name string) *v1.Pod {
	run := func(command string) *v1.LifecycleHandler {
		return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{command}}}
	}
	probe := &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"probe"}}}, PeriodSeconds: 5,
		TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3}
	main := v1.Container{
		Name: "main", Image: "image:1", ReadinessProbe: probe, LivenessProbe: probe, StartupProbe: probe,
		Lifecycle: &v1.Lifecycle{PostStart: run("postStart"), PreStop: run("preStop")},
		Resources: v1.ResourceRequirements{Claims: []v1.ResourceClaim{{Name: "gpu"}}},
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Generation: 1},
		Spec: v1.PodSpec{
			NodeName: "n1", ServiceAccountName: "default", RestartPolicy: v1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: ptr.To[int64](30),
			ResourceClaims:                []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("gpu")}},
			InitContainers: []v1.Container{{Name: "init", Image: "image:1"},
				{Name: "side", Image: "image:1", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways), StartupProbe: probe}},
			Volumes: []v1.Volume{
				{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
				{Name: "memory", VolumeSource: v1.VolumeSource{
					EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}},
				{Name: "config", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
					LocalObjectReference: v1.LocalObjectReference{Name: "config"}, DefaultMode: ptr.To[int32](0o644)}}},
				{Name: "token", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
					DefaultMode: ptr.To[int32](0o644), Sources: []v1.VolumeProjection{{
						ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token",
							ExpirationSeconds: ptr.To[int64](3600)}}}}}},
				{Name: "data", VolumeSource: v1.VolumeSource{
					PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
			},
		},
	}
	for _, v := range pod.Spec.Volumes {
		main.VolumeMounts = append(main.VolumeMounts, v1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	}
	pod.Spec.Containers = []v1.Container{main}
	if name == "job" {
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		pod.Spec.Containers[0].StartupProbe, pod.Spec.Containers[0].LivenessProbe = nil, nil
	}
	return pod
}

// unmountAll unmounts what kubelets mounted on and below a directory: the directory itself is shared with containers. A
// mount that belongs to a pod is a fault.
func unmountAll(t *testing.T, root string) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return // a system without such mounts
	}
	for _, line := range slices.Backward(strings.Split(string(data), "\n")) {
		fields := strings.Fields(line)
		if len(fields) < 5 || !strings.HasPrefix(fields[4], root+"/") {
			continue
		}
		if strings.Contains(fields[4], "/pods/") {
			t.Errorf("still mounted: %s", fields[4])
		}
		_ = syscall.Unmount(fields[4], 0)
	}
}
