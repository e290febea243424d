package bench

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"
)

const (
	// claimNodes is the size of the clusters in which pods have claims, unless a largest cluster is asked for that is
	// smaller: enough for the scheduler to look at nearly as many nodes for each pod as in the largest clusters.
	claimNodes = 500
	// claimPods is how many pods there are of each kind, for each node, and claimRoom how many volumes or devices.
	claimPods, claimRoom = 2, 4
	// claimDriver is the driver of the volumes and devices, and the name of their classes.
	claimDriver = "bench.quintet.dev"
	// noProvisioner is what the class of volumes has that were made by hand.
	noProvisioner = "kubernetes.io/no-provisioner"
	// plainSpace and claimingSpace are the namespaces of pods without and with claims.
	plainSpace, claimingSpace = "plain", "claiming"
	// claimProfile is the length of a CPU profile while pods are placed, which takes a few seconds.
	claimProfile = time.Second
	// schedulerLabel is what samples of the scheduler are labelled with.
	schedulerLabel = "kube-scheduler"
)

// kindOfClaims is what the nodes of a cluster have, and how pods ask for it.
type kindOfClaims struct {
	offer func(ctx context.Context, c *hollowCluster, o Options) error
	claim func(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error
}

// volumeClaims measures pods whose claims wait for them to be bound to a volume of a node.
func volumeClaims(ctx context.Context, o Options) ([]Measure, error) {
	return claims(ctx, o, kindOfClaims{offerVolumes, claimVolume})
}

// deviceClaims measures pods whose claims are made from a template, each for a device of a node.
func deviceClaims(ctx context.Context, o Options) ([]Measure, error) {
	return claims(ctx, o, kindOfClaims{offerDevices, claimDevice})
}

// claims measures how pods with claims are placed, against pods without.
func claims(ctx context.Context, o Options, kind kindOfClaims) ([]Measure, error) {
	ctx, cancel := context.WithTimeout(ctx, scaleTimeout)
	defer cancel()
	nodes, err := o.largest()
	if err != nil {
		return nil, err
	}
	c, err := startHollow(ctx, o, "memory", min(nodes, claimNodes))
	if err != nil {
		return nil, err
	}
	defer c.close()
	for _, space := range []string{plainSpace, claimingSpace} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}}
		if _, err := c.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	plain, err := c.place(ctx, o, plainSpace, alike(func(*corev1.Pod) {}))
	if err != nil {
		return nil, err
	}
	if err := kind.offer(ctx, c, o); err != nil {
		return nil, err
	}
	claiming, err := c.place(ctx, o, claimingSpace, kind.claim)
	if err != nil {
		return nil, err
	}
	for i := range claiming {
		claiming[i].Limit, claiming[i].Against = plain[i].Value, "pods without"
	}
	return append([]Measure{{Name: nodesMeasure, Value: float64(c.nodes), Unit: "nodes"}}, claiming...), nil
}

// place creates pods in a namespace and measures until the last of them has a node.
func (c *hollowCluster) place(ctx context.Context, o Options, space string,
	claim func(context.Context, kubernetes.Interface, *corev1.Pod) error) ([]Measure, error) {
	pods := c.nodes * claimPods
	before, after, profile, err := c.profiled(ctx, claimProfile, func() error {
		err := each(ctx, o.Clients, pods, func(ctx context.Context, _, i int) error {
			pod := servingPod(fmt.Sprintf("pod-%05d", i))
			pod.Namespace = space
			if err := claim(ctx, c.client, pod); err != nil {
				return err
			}
			_, err := c.client.CoreV1().Pods(space).Create(ctx, pod, metav1.CreateOptions{})
			return err
		})
		if err != nil {
			return err
		}
		return c.placed(ctx, space, pods)
	})
	if err != nil {
		return nil, err
	}
	n := float64(pods)
	cpu := milliseconds(after.cpu-before.cpu) / n
	all := []Measure{
		{Name: fmt.Sprintf("create → placed, %d pods", pods), Value: n / after.at.Sub(before.at).Seconds(),
			Unit: frequency},
		{Name: "CPU, each pod", Value: cpu, Unit: "ms"},
		{Name: "allocated, each pod", Value: (after.allocated - before.allocated) / 1024 / n, Unit: "KiB"},
	}
	if profile == nil {
		return nil, fmt.Errorf("%d pods were placed before a profile was taken", pods)
	}
	scheduler := Measure{Name: "CPU, each pod: " + schedulerLabel, Unit: "ms", Aim: "≤ 5x"}
	for _, s := range shares(profile) {
		if s.component == schedulerLabel {
			scheduler.Value = cpu * s.part
		}
	}
	return append(all, scheduler), nil
}

// placed waits until so many pods of a namespace have a node.
func (c *hollowCluster) placed(ctx context.Context, space string, pods int) error {
	return counted(ctx, c.client, &corev1.Pod{}, "pods", space, fields.OneTermNotEqualSelector("spec.nodeName", ""), pods,
		func(runtime.Object) bool { return true })
}

// counted waits until so many objects are as they should be.
func counted(ctx context.Context, client kubernetes.Interface, kind runtime.Object, plural, space string,
	of fields.Selector, count int, is func(runtime.Object) bool) error {
	found := map[types.UID]bool{}
	list := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), plural, space, of)
	_, err := watchtools.UntilWithSync(ctx, list, kind, nil, func(event watch.Event) (bool, error) {
		if obj, ok := event.Object.(metav1.Object); ok && is(event.Object) {
			found[obj.GetUID()] = true
		}
		return len(found) == count, nil
	})
	if err != nil {
		return fmt.Errorf("%d of %d %s are as they should be: %w", len(found), count, plural, err)
	}
	return nil
}

func hollowNames(ctx context.Context, c *hollowCluster) ([]string, error) {
	nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	names := make([]string, len(nodes.Items))
	for i := range nodes.Items {
		names[i] = nodes.Items[i].Name
	}
	return names, nil
}

// offerVolumes makes volumes of a driver that attaches nothing and takes a limited number of them on each node.
func offerVolumes(ctx context.Context, c *hollowCluster, o Options) error {
	names, err := hollowNames(ctx, c)
	if err != nil {
		return err
	}
	storage := c.client.StorageV1()
	if _, err := storage.CSIDrivers().Create(ctx, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: claimDriver},
		Spec: storagev1.CSIDriverSpec{AttachRequired: ptr.To(false)}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := storage.StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: claimDriver}, Provisioner: noProvisioner,
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := each(ctx, o.Clients, len(names), func(ctx context.Context, _, i int) error {
		_, err := storage.CSINodes().Create(ctx, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: names[i]},
			Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: claimDriver, NodeID: names[i],
				Allocatable: &storagev1.VolumeNodeResources{Count: ptr.To[int32](2 * claimRoom)}}}}},
			metav1.CreateOptions{})
		return err
	}); err != nil {
		return err
	}
	volumes := len(names) * claimRoom
	if err := each(ctx, o.Clients, volumes, func(ctx context.Context, _, i int) error {
		_, err := c.client.CoreV1().PersistentVolumes().Create(ctx, nodeVolume(fmt.Sprintf("volume-%05d", i),
			names[i%len(names)]), metav1.CreateOptions{})
		return err
	}); err != nil {
		return err
	}
	return counted(ctx, c.client, &corev1.PersistentVolume{}, "persistentvolumes", "", fields.Everything(), volumes,
		isAvailable)
}

func isAvailable(obj runtime.Object) bool {
	volume, ok := obj.(*corev1.PersistentVolume)
	return ok && volume.Status.Phase == corev1.VolumeAvailable
}

func nodeVolume(name, node string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		StorageClassName: claimDriver, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: claimDriver, VolumeHandle: name}},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}},
	}}
}

// claimVolume has a pod use a claim that it makes.
func claimVolume(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: pod.Name},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To(claimDriver),
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pod.Name}}}}
	_, err := client.CoreV1().PersistentVolumeClaims(pod.Namespace).Create(ctx, claim, metav1.CreateOptions{})
	return err
}

// offerDevices publishes devices of each node, and makes the template that claims one of them.
func offerDevices(ctx context.Context, c *hollowCluster, o Options) error {
	names, err := hollowNames(ctx, c)
	if err != nil {
		return err
	}
	api := c.client.ResourceV1()
	if _, err := api.DeviceClasses().Create(ctx, deviceClass(), metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := api.ResourceClaimTemplates(claimingSpace).Create(ctx, deviceTemplate(),
		metav1.CreateOptions{}); err != nil {
		return err
	}
	return each(ctx, o.Clients, len(names), func(ctx context.Context, _, i int) error {
		_, err := api.ResourceSlices().Create(ctx, nodeDevices(names[i]), metav1.CreateOptions{})
		return err
	})
}

// deviceClass has all devices of the driver.
func deviceClass() *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: claimDriver}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
			Expression: fmt.Sprintf("device.driver == %q", claimDriver)}}}}}
}

// nodeDevices are the devices of a node, no two of which are the same.
func nodeDevices(node string) *resourcev1.ResourceSlice {
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-devices"},
		Spec: resourcev1.ResourceSliceSpec{Driver: claimDriver, NodeName: &node,
			Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}}
	for i := range claimRoom {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("device-%d", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
				"serial": {StringValue: ptr.To(fmt.Sprintf("%s-%d", node, i))}}})
	}
	return slice
}

// deviceTemplate is what claims for a device are made from.
func deviceTemplate() *resourcev1.ResourceClaimTemplate {
	request := resourcev1.DeviceRequest{Name: "device", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: claimDriver, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}
	return &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "device"},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: resourcev1.ResourceClaimSpec{
			Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{request}}}}}
}

// claimDevice has a pod use a claim for a device that is made from the template.
func claimDevice(_ context.Context, _ kubernetes.Interface, pod *corev1.Pod) error {
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimTemplateName: ptr.To("device")}}
	return nil
}
