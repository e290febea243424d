package bench

import (
	"context"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// workload is pods of one kind that wait for nodes.
type workload struct {
	name string
	// slow is what has the first pod placed long after the scheduler's start, from which the time counts then.
	slow bool
	// offer makes what the pods depend on; nil is nothing.
	offer func(ctx context.Context, r *schedulingRig) error
	// shape makes a pod one of this kind, with what it claims.
	shape func(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error
}

// alike makes all pods of a workload the same.
func alike(shape func(*corev1.Pod)) func(context.Context, kubernetes.Interface, *corev1.Pod) error {
	return func(_ context.Context, _ kubernetes.Interface, pod *corev1.Pod) error {
		shape(pod)
		return nil
	}
}

func workloads() []workload {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "bench"}}
	spread := func(key string, unless corev1.UnsatisfiableConstraintAction) corev1.TopologySpreadConstraint {
		return corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: unless, LabelSelector: selector,
		}
	}
	return []workload{
		{name: "basic", shape: alike(func(*corev1.Pod) {})},
		{name: "spread", shape: alike(func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
				spread(corev1.LabelTopologyZone, corev1.DoNotSchedule),
				spread(corev1.LabelHostname, corev1.ScheduleAnyway),
			}
		})},
		{name: "anti-affinity", shape: alike(func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
					{TopologyKey: corev1.LabelHostname, LabelSelector: selector}}}}
		})},
		{name: "preemption", slow: true, offer: offerVictims, shape: alike(func(p *corev1.Pod) {
			p.Spec.PriorityClassName = "bench-high"
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(fmt.Sprint(nodeCPUs))
		})},
		{name: "volumes", slow: true, offer: offerNodeVolumes, shape: claimVolume},
		{name: "claims", offer: offerNodeDevices, shape: claimOwnDevice},
	}
}

// offerVictims fills each node with two pods that others may take the place of.
func offerVictims(ctx context.Context, r *schedulingRig) error {
	for name, value := range map[string]int32{"bench-low": 1, "bench-high": 1000} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if _, err := r.clients[0].SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return each(ctx, len(r.clients), 2*r.nodes, func(ctx context.Context, worker, i int) error {
		p := waitingPod(fmt.Sprintf("low-%05d", i))
		p.Labels, p.Spec.NodeName, p.Spec.PriorityClassName = nil, emptyNode(i/2).Name, "bench-low"
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(fmt.Sprint(nodeCPUs / 2))
		_, err := r.clients[worker].CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{})
		return err
	})
}

// offerNodeVolumes makes a volume on each node, and starts the controller that binds claims to them: a scheduler
// chooses the volume and waits for it.
func offerNodeVolumes(ctx context.Context, r *schedulingRig) error {
	if err := r.startBinder(); err != nil {
		return err
	}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: claimDriver}, Provisioner: noProvisioner,
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)}
	if _, err := r.clients[0].StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return err
	}
	err := each(ctx, len(r.clients), r.nodes, func(ctx context.Context, worker, i int) error {
		volume := nodeVolume(fmt.Sprintf("volume-%05d", i), emptyNode(i).Name)
		_, err := r.clients[worker].CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return counted(ctx, r.clients[0], &corev1.PersistentVolume{}, "persistentvolumes", "", fields.Everything(), r.nodes,
		isAvailable)
}

// startBinder starts the controller that binds volumes and claims to each other.
func (r *schedulingRig) startBinder() error {
	config, err := r.kubeconfig("binder.conf", "bench", "system:masters")
	if err != nil {
		return err
	}
	r.binder, err = start(filepath.Join(r.o.Bin, controllersProgram), "--kubeconfig="+config, "--leader-elect=false",
		"--controllers=persistentvolume-binder-controller", "--secure-port=0", "--kube-api-qps=-1")
	return err
}

// offerNodeDevices publishes devices of each node.
func offerNodeDevices(ctx context.Context, r *schedulingRig) error {
	classes := r.clients[0].ResourceV1().DeviceClasses()
	if _, err := classes.Create(ctx, deviceClass(), metav1.CreateOptions{}); err != nil {
		return err
	}
	return each(ctx, len(r.clients), r.nodes, func(ctx context.Context, worker, i int) error {
		_, err := r.clients[worker].ResourceV1().ResourceSlices().Create(ctx, nodeDevices(emptyNode(i).Name),
			metav1.CreateOptions{})
		return err
	})
}

// claimOwnDevice has a pod use a claim for a device that it makes.
func claimOwnDevice(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Spec: deviceTemplate().Spec.Spec}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &pod.Name}}
	_, err := client.ResourceV1().ResourceClaims(namespace).Create(ctx, claim, metav1.CreateOptions{})
	return err
}

// emptyNode is the i-th node.
func emptyNode(i int) *corev1.Node {
	name := fmt.Sprintf("node-%05d", i)
	has := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(fmt.Sprint(nodeCPUs)),
		corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name,
			corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%zones)}},
		Status: corev1.NodeStatus{Capacity: has, Allocatable: has, Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// waitingPod tolerates that no controller has seen that its node is ready.
func waitingPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "bench"}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false), TerminationGracePeriodSeconds: ptr.To[int64](0),
			Tolerations: []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "main", Image: testImage, Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"),
					corev1.ResourceMemory: resource.MustParse("64Mi")}}}},
		},
	}
}
