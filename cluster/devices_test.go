package cluster

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

const deviceDriver = "driver.example.com"

// publish makes a class "gpu" and one device of a node.
func publish(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	t.Helper()
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil || len(nodes.Items) == 0 {
		t.Fatalf("nodes: %v, %v", nodes, err)
	}
	node := nodes.Items[0].Name
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{
		ExtendedResourceName: ptr.To("example.com/gpu"),
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
			Expression: `device.driver == "driver.example.com"`}}}}}
	if _, err := client.ResourceV1().DeviceClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "slice"},
		Spec: resourcev1.ResourceSliceSpec{Driver: deviceDriver, NodeName: &node, Devices: []resourcev1.Device{{Name: "d"}},
			Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}}}
	if _, err := client.ResourceV1().ResourceSlices().Create(ctx, slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// eventuallyIs waits until is returns true; what it waits for is in the error.
func eventuallyIs(ctx context.Context, t *testing.T, what string, is func(ctx context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, is); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// TestDevices: a claim of a template is allocated, and goes with its pod; its device then serves an extended resource;
// a rule that taints the device evicts the pod, and tells so.
func TestDevices(t *testing.T) {
	const gate = "--feature-gates=DRADeviceTaintRules=true"
	_, client := started(t, WithArgs(APIServer, gate, "--runtime-config=resource.k8s.io/v1beta2=true"),
		WithArgs(ControllerManager, gate), WithArgs(Scheduler, gate))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	publish(ctx, t, client)
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "template"},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}}}}}}
	if _, err := client.ResourceV1().ResourceClaimTemplates("default").Create(ctx, template,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods, claims := client.CoreV1().Pods("default"), client.ResourceV1().ResourceClaims("default")
	claiming := devicePod("claiming", "")
	claiming.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: &template.Name}}
	create := func(p *corev1.Pod) {
		t.Helper()
		eventuallyIs(ctx, t, "create pod "+p.Name, func(ctx context.Context) (bool, error) {
			_, err := pods.Create(ctx, p, metav1.CreateOptions{})
			return err == nil, nil // its service account may come later
		})
		eventuallyIs(ctx, t, p.Name+" is scheduled", func(ctx context.Context) (bool, error) {
			now, err := pods.Get(ctx, p.Name, metav1.GetOptions{})
			return err == nil && now.Spec.NodeName != "", err
		})
	}
	create(claiming)
	all, err := claims.List(ctx, metav1.ListOptions{})
	if err != nil || len(all.Items) != 1 || all.Items[0].Status.Allocation == nil ||
		len(all.Items[0].Status.ReservedFor) != 1 {
		t.Fatalf("claims %+v, %v", all, err)
	}
	if err := pods.Delete(ctx, "claiming", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		t.Fatal(err)
	}
	eventuallyIs(ctx, t, "the claim is gone", func(ctx context.Context) (bool, error) {
		_, err := claims.Get(ctx, all.Items[0].Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})

	create(devicePod("extended", "example.com/gpu"))
	now, err := pods.Get(ctx, "extended", metav1.GetOptions{})
	if err != nil || now.Status.ExtendedResourceClaimStatus == nil {
		t.Fatalf("status %+v, %v", now, err)
	}
	rule := &resourcev1beta2.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "rule"},
		Spec: resourcev1beta2.DeviceTaintRuleSpec{
			DeviceSelector: &resourcev1beta2.DeviceTaintSelector{Driver: ptr.To(deviceDriver)},
			Taint:          resourcev1beta2.DeviceTaint{Key: "k", Effect: resourcev1beta2.DeviceTaintEffectNoExecute}}}
	rules := client.ResourceV1beta2().DeviceTaintRules()
	if _, err := rules.Create(ctx, rule, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventuallyIs(ctx, t, "the pod is evicted", func(ctx context.Context) (bool, error) {
		p, err := pods.Get(ctx, "extended", metav1.GetOptions{})
		return apierrors.IsNotFound(err) || err == nil && p.DeletionTimestamp != nil, nil
	})
	eventuallyIs(ctx, t, "the rule tells", func(ctx context.Context) (bool, error) {
		r, err := rules.Get(ctx, "rule", metav1.GetOptions{})
		return err == nil && meta.FindStatusCondition(r.Status.Conditions, "EvictionInProgress") != nil, err
	})
	last := devicePod("last", "example.com/gpu")
	if _, err := pods.Create(ctx, last, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventuallyIs(ctx, t, "the tainted device is refused", func(ctx context.Context) (bool, error) {
		p, err := pods.Get(ctx, "last", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				return true, nil
			}
		}
		return false, nil
	})
}

// devicePod requests one of an extended resource, or none for "".
func devicePod(name string, extended corev1.ResourceName) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "image"}}}}
	if extended != "" {
		one := corev1.ResourceList{extended: resource.MustParse("1")}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: one, Limits: one}
	}
	return p
}
