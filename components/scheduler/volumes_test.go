package scheduler

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-helpers/storage/volume"

	"quintet.dev/quintet/components/scheduler/schedulertest"
)

// withStorage pretends to be an API server that serves storage objects.
func withStorage(objects ...runtime.Object) *fake.Clientset {
	client := newClient(objects...)
	client.Resources = []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "persistentvolumes"},
			{Name: "persistentvolumeclaims"}}},
		{GroupVersion: "storage.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "storageclasses"}, {Name: "csinodes"},
			{Name: "csidrivers"}, {Name: "csistoragecapacities"}, {Name: "volumeattachments"}}},
	}
	for _, resource := range []string{"persistentvolumes", "persistentvolumeclaims"} {
		client.PrependReactor("update", resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
			obj := action.(clienttesting.UpdateAction).GetObject().DeepCopyObject()
			meta := obj.(metav1.Object)
			meta.SetResourceVersion(meta.GetResourceVersion() + "0") // the next one, as an API server has it
			return true, obj, client.Tracker().Update(action.GetResource(), obj, action.GetNamespace())
		})
	}
	return client
}

func using(pod *v1.Pod, claims ...string) *v1.Pod {
	schedulertest.Using(claims...)(pod)
	return pod
}

// TestBindsVolume: the scheduler binds the volume, waits for the controller to bind the claim, and then binds the pod.
func TestBindsVolume(t *testing.T) {
	client := withStorage(newNode("a", "2"), newNode("b", "2"),
		schedulertest.Class("local", "", storagev1.VolumeBindingWaitForFirstConsumer),
		schedulertest.Claim("data", "local", "1Gi", nil))
	c := startOn(t, Config{}, client)
	c.createPod(using(newPod("p", "1"), "data"))
	c.refused("p", "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.")
	pv := schedulertest.Volume("pv", "local", "1Gi", v1.LabelHostname, "b")
	if _, err := client.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.await("p", "expected on b", func(p *v1.Pod) bool { return p.Status.NominatedNodeName == "b" })
	bound := c.volume("pv", func(pv *v1.PersistentVolume) bool { return pv.Spec.ClaimRef != nil })
	if bound.Spec.ClaimRef.Name != "data" || bound.Annotations[volume.AnnBoundByController] != "yes" {
		t.Errorf("the volume was bound by %v, annotations %v", bound.Spec.ClaimRef, bound.Annotations)
	}
	if node := c.pod("p").Spec.NodeName; node != "" {
		t.Fatalf("the pod is on %s before its claim is bound", node)
	}
	c.claim("data", schedulertest.Bound("pv"))
	c.bound("p", "b")
}

// TestProvisions: the node is selected for a claim that a provisioner serves; one that fails there is tried again.
func TestProvisions(t *testing.T) {
	client := withStorage(newNode("a", "2"),
		schedulertest.Class("csi", "csi.example.com", storagev1.VolumeBindingWaitForFirstConsumer),
		schedulertest.Claim("data", "csi", "1Gi", nil))
	c := startOn(t, Config{}, client)
	c.createPod(using(newPod("p", "1"), "data"))
	selects := func(claim *v1.PersistentVolumeClaim) bool { return claim.Annotations[volume.AnnSelectedNode] == "a" }
	c.awaitClaim("data", selects)
	c.claim("data", func(claim *v1.PersistentVolumeClaim) { delete(claim.Annotations, volume.AnnSelectedNode) })
	c.event("p", "FailedScheduling",
		`running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "data"`)
	c.awaitClaim("data", selects)
	pv := schedulertest.Volume("pv", "csi", "1Gi", v1.LabelHostname, "a")
	if _, err := client.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.claim("data", schedulertest.Bound("pv"))
	c.bound("p", "a")
}

// TestMissingClaimAppears: the refusal has upstream's text, and the claim wakes the pod.
func TestMissingClaimAppears(t *testing.T) {
	client := withStorage(newNode("a", "2"), schedulertest.Volume("pv", "", "1Gi", ""))
	c := startOn(t, Config{}, client)
	c.createPod(using(newPod("p", "1"), "data"))
	c.refused("p", `0/1 nodes are available: persistentvolumeclaim "data" not found. not found`)
	claim := schedulertest.Claim("data", "", "1Gi", schedulertest.Bound("pv"))
	if _, err := client.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), claim,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.bound("p", "a")
}

// TestPreemptsForClaim: a pod of higher priority takes a ReadWriteOncePod claim over.
func TestPreemptsForClaim(t *testing.T) {
	once := schedulertest.Claim("data", "", "1Gi", schedulertest.Bound("pv"))
	once.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	low := using(newPod("low", "1"), "data")
	low.Spec.NodeName = "a"
	client := withStorage(newNode("a", "4"), once, schedulertest.Volume("pv", "", "1Gi", ""), low)
	c := startOn(t, Config{}, client)
	equal := using(newPod("equal", "1"), "data")
	c.createPod(equal)
	c.refused("equal",
		"0/1 nodes are available: 1 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod "+
			"access mode already in-use by another pod. no new claims to deallocate, preemption: 0/1 nodes are available: "+
			"1 No preemption victims found for incoming pod.")
	high, priority := using(newPod("high", "1"), "data"), int32(10)
	high.Spec.Priority = &priority
	c.createPod(high)
	c.bound("high", "a")
}

func (c *cluster) volume(name string, is func(*v1.PersistentVolume) bool) *v1.PersistentVolume {
	c.Helper()
	var last *v1.PersistentVolume
	c.eventually("volume "+name, func() bool {
		var err error
		if last, err = c.client.CoreV1().PersistentVolumes().Get(c.Context(), name, metav1.GetOptions{}); err != nil {
			c.Fatal(err)
		}
		return is(last)
	})
	return last
}

func (c *cluster) awaitClaim(name string, is func(*v1.PersistentVolumeClaim) bool) {
	c.Helper()
	c.eventually("claim "+name, func() bool {
		claim, err := c.client.CoreV1().PersistentVolumeClaims("default").Get(c.Context(), name, metav1.GetOptions{})
		if err != nil {
			c.Fatal(err)
		}
		return is(claim)
	})
}

// claim changes a claim.
func (c *cluster) claim(name string, change func(*v1.PersistentVolumeClaim)) {
	c.Helper()
	claims := c.client.CoreV1().PersistentVolumeClaims("default")
	claim, err := claims.Get(c.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	change(claim)
	if _, err := claims.Update(c.Context(), claim, metav1.UpdateOptions{}); err != nil {
		c.Fatal(err)
	}
}
