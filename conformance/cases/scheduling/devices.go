package scheduling

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/conformance/suite"
)

// driverOf is a driver that only this case has devices of. No program stands behind it.
func driverOf(t *suite.T) string { return t.Namespace + ".example.com" }

// addDeviceClass makes a class of all devices of the case, and returns its name.
func addDeviceClass(ctx context.Context, t *suite.T, change func(*resourcev1.DeviceClass)) string {
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: t.Namespace},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
			Expression: fmt.Sprintf("device.driver == %q", driverOf(t))}}}}}
	if change != nil {
		change(class)
	}
	classes := t.Client.ResourceV1().DeviceClasses()
	t.Cleanup(func(ctx context.Context) { _ = classes.Delete(ctx, class.Name, metav1.DeleteOptions{}) })
	_, err := classes.Create(ctx, class, metav1.CreateOptions{})
	t.Must(err, "create the device class")
	return class.Name
}

// addDevices publishes devices of a node, which is their pool.
func addDevices(ctx context.Context, t *suite.T, node string, devices ...resourcev1.Device) {
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: resourcev1.ResourceSliceSpec{Driver: driverOf(t), NodeName: &node, Devices: devices,
			Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}}
	slices := t.Client.ResourceV1().ResourceSlices()
	t.Cleanup(func(ctx context.Context) { _ = slices.Delete(ctx, node, metav1.DeleteOptions{}) })
	_, err := slices.Create(ctx, slice, metav1.CreateOptions{})
	t.Must(err, "create the resource slice of node %s", node)
}

// device has a model, as an attribute.
func device(name, model string, taints ...resourcev1.DeviceTaint) resourcev1.Device {
	return resourcev1.Device{Name: name, Taints: taints,
		Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: &model}}}
}

func exactly(class string, count int64, tolerations ...resourcev1.DeviceToleration) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Name: "device", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class,
		AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count, Tolerations: tolerations}}
}

func addResourceClaim(ctx context.Context, t *suite.T, name string, request resourcev1.DeviceRequest) {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{request}}}}
	_, err := t.Client.ResourceV1().ResourceClaims(t.Namespace).Create(ctx, claim, metav1.CreateOptions{})
	t.Must(err, "create resource claim %s", name)
}

func resourceClaim(ctx context.Context, t *suite.T, name string) *resourcev1.ResourceClaim {
	claim, err := t.Client.ResourceV1().ResourceClaims(t.Namespace).Get(ctx, name, metav1.GetOptions{})
	t.Must(err, "get resource claim %s", name)
	return claim
}

// claiming makes a pod and its container use a claim.
func claiming(claim string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims,
			corev1.PodResourceClaim{Name: "devices", ResourceClaimName: &claim})
		c := &p.Spec.Containers[0]
		c.Resources.Claims = append(c.Resources.Claims, corev1.ResourceClaim{Name: "devices"})
	}
}

// allocatedTo are the devices of a claim as pool/device.
func allocatedTo(claim *resourcev1.ResourceClaim) []string {
	var names []string
	if claim.Status.Allocation != nil {
		for _, result := range claim.Status.Allocation.Devices.Results {
			names = append(names, result.Pool+"/"+result.Device)
		}
	}
	return names
}

func deviceClaim(ctx context.Context, t *suite.T) {
	addNode(ctx, t, "without", nil)
	node := addNode(ctx, t, "with", nil)
	class := addDeviceClass(ctx, t, nil)
	addDevices(ctx, t, node, device("d", "m"))
	addResourceClaim(ctx, t, "first", exactly(class, 1))
	t.Expect(place(ctx, t, pod(t, "first", claiming("first")))).To(Equal(node))
	claim := resourceClaim(ctx, t, "first")
	t.Expect(allocatedTo(claim)).To(Equal([]string{node + "/d"}))
	t.Expect(claim.Status.Allocation.Devices.Results[0]).To(And(HaveField("Driver", driverOf(t)),
		HaveField("Request", "device")))
	t.Expect(claim.Finalizers).To(ContainElement(resourcev1.Finalizer))
	t.Expect(claim.Status.ReservedFor).To(HaveExactElements(And(HaveField("Resource", "pods"),
		HaveField("Name", "first"))))

	addResourceClaim(ctx, t, "second", exactly(class, 1))
	t.CreatePod(ctx, pod(t, "second", claiming("second")))
	refusedFor(ctx, t, "second", "cannot allocate all claims")
	remove(ctx, t, "first")
	t.Expect(bound(ctx, t, "second")).To(Equal(node), "the device was given back")
	t.Expect(allocatedTo(resourceClaim(ctx, t, "first"))).To(BeEmpty(), "no pod uses the claim")
}

func deviceClaimMissing(ctx context.Context, t *suite.T) {
	node := addNode(ctx, t, "with", nil)
	class := addDeviceClass(ctx, t, nil)
	addDevices(ctx, t, node, device("d", "m"))
	t.CreatePod(ctx, pod(t, "early", claiming("late")))
	suite.Never(ctx, t, "the pod is bound without its claim", t.GetPod("early"),
		HaveField("Spec.NodeName", Not(BeEmpty())))
	addResourceClaim(ctx, t, "late", exactly(class, 1))
	t.Expect(bound(ctx, t, "early")).To(Equal(node))
}

func deviceTaint(ctx context.Context, t *suite.T) {
	node := addNode(ctx, t, "with", nil)
	class := addDeviceClass(ctx, t, nil)
	addDevices(ctx, t, node, device("d", "m",
		resourcev1.DeviceTaint{Key: "example.com/broken", Effect: resourcev1.DeviceTaintEffectNoSchedule}))
	addResourceClaim(ctx, t, "plain", exactly(class, 1))
	t.CreatePod(ctx, pod(t, "plain", claiming("plain")))
	refusedFor(ctx, t, "plain", "cannot allocate all claims")
	addResourceClaim(ctx, t, "tolerant", exactly(class, 1, resourcev1.DeviceToleration{Key: "example.com/broken",
		Operator: resourcev1.DeviceTolerationOpExists, Effect: resourcev1.DeviceTaintEffectNoSchedule}))
	t.Expect(place(ctx, t, pod(t, "tolerant", claiming("tolerant")))).To(Equal(node))
}

func deviceAlternatives(ctx context.Context, t *suite.T) {
	old, best := addNode(ctx, t, "old", nil), addNode(ctx, t, "best", nil)
	class := addDeviceClass(ctx, t, nil)
	addDevices(ctx, t, old, device("d", "old"))
	addDevices(ctx, t, best, device("d", "best"))
	request := resourcev1.DeviceRequest{Name: "device"}
	for _, model := range []string{"best", "old"} {
		request.FirstAvailable = append(request.FirstAvailable, resourcev1.DeviceSubRequest{Name: model,
			DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
			Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
				Expression: fmt.Sprintf("device.attributes[%q].model == %q", driverOf(t), model)}}}})
	}
	for _, want := range []struct{ name, node, model string }{{"first", best, "best"}, {"second", old, "old"}} {
		addResourceClaim(ctx, t, want.name, request)
		t.Expect(place(ctx, t, pod(t, want.name, claiming(want.name)))).To(Equal(want.node))
		t.Expect(resourceClaim(ctx, t, want.name).Status.Allocation.Devices.Results).To(
			HaveExactElements(HaveField("Request", "device/"+want.model)))
	}
}

func deviceTemplate(ctx context.Context, t *suite.T) {
	node := addNode(ctx, t, "with", nil)
	class := addDeviceClass(ctx, t, nil)
	addDevices(ctx, t, node, device("d", "m"))
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "template"},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{exactly(class, 1)}}}}}
	_, err := t.Client.ResourceV1().ResourceClaimTemplates(t.Namespace).Create(ctx, template, metav1.CreateOptions{})
	t.Must(err, "create the template")
	p := pod(t, "p", func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimTemplateName: &template.Name}}
	})
	t.Expect(place(ctx, t, p)).To(Equal(node))
	placed, err := t.GetPod("p")(ctx)
	t.Must(err, "get the pod")
	t.Expect(placed.Status.ResourceClaimStatuses).To(HaveExactElements(And(HaveField("Name", "devices"),
		HaveField("ResourceClaimName", Not(BeNil())))))
	name := *placed.Status.ResourceClaimStatuses[0].ResourceClaimName
	claim := resourceClaim(ctx, t, name)
	t.Expect(allocatedTo(claim)).To(Equal([]string{node + "/d"}))
	t.Expect(metav1.IsControlledBy(claim, placed)).To(BeTrue())
	remove(ctx, t, "p")
	suite.WaitFor(ctx, t, "the claim of the pod to go", func(ctx context.Context) (bool, error) {
		_, err := t.Client.ResourceV1().ResourceClaims(t.Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	}, BeTrue())
}
