package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/conformance/suite"
)

const devicePlugins = "https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/"

func deviceCases() []suite.Case {
	return since("0.3", []suite.Case{
		{ID: "node/device", Run: deviceAllocated, Reference: devicePlugins + "#device-plugin-implementation",
			Requirement: "A container that asks for a device MUST get what the plug-in answers: variables, mounts, device " +
				"nodes " +
				"and CDI devices."},
		{ID: "node/device-distinct", Run: deviceDistinct, Reference: devicePlugins,
			Requirement: "Containers of a pod that ask for devices MUST get different ones, and the container without MUST " +
				"get " +
				"none."},
		{ID: "node/device-init-container", Run: deviceReused, Reference: devicePlugins,
			Requirement: "A device of an init container that has ended MUST be usable by the pod's containers."},
		{ID: "node/device-kept", Run: deviceKept, Reference: devicePlugins,
			Requirement: "A container that is restarted MUST have the device that it had."},
		{ID: "node/pod-resources", Run: podResources,
			Reference: devicePlugins + "#monitoring-device-plugin-resources",
			Requirement: "The kubelet MUST tell over the socket of its directory pod-resources which devices a " +
				"container has."},
		{ID: "node/device-exhausted", Run: deviceExhausted, Reference: devicePlugins, Serial: true,
			Requirement: "A pod MUST wait while a node's devices are all taken, be refused by the kubelet if it is bound " +
				"there " +
				"nevertheless, and get one that is given back."},
		{ID: "node/device-unhealthy", Run: deviceUnhealthy, Serial: true,
			Reference: devicePlugins + "#device-plugin-and-unhealthy-devices",
			Requirement: "An unhealthy device MUST leave the allocatable resources of its node, not its capacity, and be " +
				"reported in the status of the pod that has it, until it is healthy again."},
		{ID: "node/device-plugin-restart", Run: devicePluginRestart, Serial: true,
			Reference: devicePlugins + "#handling-kubelet-restarts",
			Requirement: "A device plug-in that is restarted MUST be taken in again, its pods run on meanwhile, and their " +
				"devices " +
				"be given to no other."},
	}, suite.DevicePlugin)
}

// nodeWithDevices returns a node that has free devices of the plug-in, and at least two.
func nodeWithDevices(ctx context.Context, t *suite.T) *corev1.Node {
	nodes, err := t.RunningNodes(ctx)
	t.Must(err, "list the nodes")
	i := slices.IndexFunc(nodes, func(n corev1.Node) bool { return suite.DevicesOf(&n) >= 2 })
	t.Expect(i).To(BeNumerically(">=", 0), "a node with two devices")
	return &nodes[i]
}

// on has the scheduler choose a node.
func on(p *corev1.Pod, node string) *corev1.Pod {
	p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	return p
}

// withDevices has the main container of a pod ask for devices.
func withDevices(p *corev1.Pod, n int64) *corev1.Pod {
	p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
		suite.DeviceResource: *resource.NewQuantity(n, resource.DecimalSI)}
	return p
}

// devicesIn are the devices that a running container has, by its variable.
func devicesIn(ctx context.Context, t *suite.T, pod string) []string {
	out, _, err := execute(ctx, t, pod, "", "testimage", "env", "QUINTET_DEVICES")
	t.Must(err, "read the devices of %s", pod)
	return strings.Split(strings.TrimSpace(out), ",")
}

func deviceAllocated(ctx context.Context, t *suite.T) {
	t.CreatePod(ctx, withDevices(t.Pod("user", "env", "then", "sleep", "forever"), 1))
	p := running(ctx, t, "user")
	waitLog(ctx, t, "user", "QUINTET_CDI_") // what the specification of the CDI device adds
	ids := devicesIn(ctx, t, "user")
	t.Expect(ids).To(HaveLen(1))
	out, _, err := execute(ctx, t, "user", "", "testimage", "env")
	t.Must(err, "read the variables of a command that is executed")
	t.Expect(out).To(ContainSubstring("QUINTET_CDI_"), "it has those of the CDI device, too")
	out, _, err = execute(ctx, t, "user", "", "testimage", "stat", "/dev/quintet/"+ids[0])
	t.Must(err, "look at the device")
	t.Expect(out).To(ContainSubstring(" other "), "it is a device, not a file")
	_, _, err = execute(ctx, t, "user", "", "testimage", "write", "/dev/quintet/"+ids[0], "x")
	t.Must(err, "use the device, which its control group must allow")
	out, _, err = execute(ctx, t, "user", "", "testimage", "cat", "/etc/quintet/devices/"+ids[0]+"/name")
	t.Must(err, "read the file that is mounted with the device")
	t.Expect(strings.TrimSpace(out)).To(Equal(ids[0]))
	main := container(p, "main")
	t.Expect(main.AllocatedResourcesStatus).To(HaveExactElements(And(
		HaveField("Name", corev1.ResourceName(suite.DeviceResource)),
		HaveField("Resources", HaveExactElements(And(HaveField("ResourceID", corev1.ResourceID(ids[0])),
			HaveField("Health", corev1.ResourceHealthStatusHealthy)))))))
}

func podResources(ctx context.Context, t *suite.T) {
	node := nodeWithDevices(ctx, t)
	t.CreatePod(ctx, on(withDevices(t.Pod("user", "sleep", "forever"), 1), node.Name))
	running(ctx, t, "user")
	ids := devicesIn(ctx, t, "user")
	kind := corev1.HostPathDirectory
	observer := withVolume(t.Pod("observer", "resources", "/sockets/kubelet.sock"), corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/kubelet/pod-resources", Type: &kind}},
		corev1.VolumeMount{MountPath: "/sockets"})
	t.Expect(outputOf(ctx, t, on(observer, node.Name))).To(ContainElements(
		t.Namespace+"/user/main "+suite.DeviceResource+"="+ids[0], t.Namespace+"/observer/main"))
}

func deviceDistinct(ctx context.Context, t *suite.T) {
	p := withDevices(t.Pod("two", "env", "QUINTET_DEVICES"), 1)
	p.Spec.Containers = append(p.Spec.Containers, *p.Spec.Containers[0].DeepCopy(), *p.Spec.Containers[0].DeepCopy())
	p.Spec.Containers[1].Name, p.Spec.Containers[2].Name = "second", "without"
	p.Spec.Containers[2].Args = []string{"env"}
	p.Spec.Containers[2].Resources = corev1.ResourceRequirements{}
	t.CreatePod(ctx, p)
	ended(ctx, t, "two", corev1.PodSucceeded)
	read := func(container string) string {
		return strings.TrimSpace(log(ctx, t, "two", &corev1.PodLogOptions{Container: container}))
	}
	t.Expect(read("main")).To(HavePrefix("device-"))
	t.Expect(read("second")).To(HavePrefix("device-"))
	t.Expect(read("second")).NotTo(Equal(read("main")))
	t.Expect(read("without")).NotTo(ContainSubstring("QUINTET_DEVICES"))
}

func deviceReused(ctx context.Context, t *suite.T) {
	p := withDevices(t.Pod("reused", "env", "QUINTET_DEVICES"), 1)
	first := *p.Spec.Containers[0].DeepCopy()
	first.Name = "first"
	p.Spec.InitContainers = []corev1.Container{first}
	t.CreatePod(ctx, p)
	ended(ctx, t, "reused", corev1.PodSucceeded)
	t.Expect(log(ctx, t, "reused", &corev1.PodLogOptions{Container: "first"})).To(And(HavePrefix("device-"),
		Equal(log(ctx, t, "reused", &corev1.PodLogOptions{Container: "main"}))))
}

func deviceKept(ctx context.Context, t *suite.T) {
	p := withDevices(t.Pod("again", "env", "QUINTET_DEVICES", "then", "fail", "1", "/shared/runs"), 1)
	p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	shared(p, "/shared")
	t.CreatePod(ctx, p)
	done := ended(ctx, t, "again", corev1.PodSucceeded)
	t.Expect(container(done, "main").RestartCount).To(BeEquivalentTo(1))
	first, _, _ := strings.Cut(log(ctx, t, "again", &corev1.PodLogOptions{Previous: true}), "\n")
	t.Expect(first).To(HavePrefix("device-"))
	t.Expect(log(ctx, t, "again", &corev1.PodLogOptions{})).To(HavePrefix(first + "\n"))
}

func deviceExhausted(ctx context.Context, t *suite.T) {
	node := nodeWithDevices(ctx, t)
	all := suite.DevicesOf(node)
	t.CreatePod(ctx, on(withDevices(t.Pod("all", "sleep", "forever"), all), node.Name))
	running(ctx, t, "all")
	t.Expect(devicesIn(ctx, t, "all")).To(HaveLen(int(all)))

	t.CreatePod(ctx, on(withDevices(t.Pod("later", "env", "QUINTET_DEVICES"), 1), node.Name))
	suite.WaitFor(ctx, t, "the next pod refused by the scheduler", t.GetPod("later"), Satisfy(func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable &&
				strings.Contains(c.Message, "Insufficient "+suite.DeviceResource)
		})
	}))
	forced := withDevices(t.Pod("forced", "sleep", "forever"), 1)
	forced.Spec.NodeName = node.Name
	t.CreatePod(ctx, forced)
	refused := ended(ctx, t, "forced", corev1.PodFailed)
	t.Expect(refused.Status.Reason).To(Equal("UnexpectedAdmissionError"))
	t.Expect(refused.Status.Message).To(ContainSubstring("requested number of devices unavailable for " +
		suite.DeviceResource))

	remove(ctx, t, "all")
	ended(ctx, t, "later", corev1.PodSucceeded)
}

// markUnhealthy makes devices of a node unhealthy, by name and reason; none makes all healthy.
func markUnhealthy(ctx context.Context, t *suite.T, node string, devices ...string) error {
	var value any
	if len(devices) > 0 {
		value = strings.Join(devices, ",")
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{suite.UnhealthyAnnotation: value}}})
	if err == nil {
		_, err = t.Client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	return err
}

// deviceHealth returns the health of all devices of a pod's main container, for WaitFor.
func deviceHealth(t *suite.T, pod string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		p, err := t.GetPod(pod)(ctx)
		if err != nil {
			return nil, err
		}
		list := []string{}
		for _, s := range container(p, "main").AllocatedResourcesStatus {
			for _, r := range s.Resources {
				text := fmt.Sprintf("%s %s %s", s.Name, r.ResourceID, r.Health)
				if r.Message != nil {
					text += " " + *r.Message
				}
				list = append(list, text)
			}
		}
		return list, nil
	}
}

func nodeNamed(t *suite.T, name string) func(context.Context) (*corev1.Node, error) {
	return func(ctx context.Context) (*corev1.Node, error) {
		return t.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	}
}

func deviceUnhealthy(ctx context.Context, t *suite.T) {
	node := nodeWithDevices(ctx, t)
	t.CreatePod(ctx, on(withDevices(t.Pod("user", "sleep", "forever"), 1), node.Name))
	running(ctx, t, "user")
	id := devicesIn(ctx, t, "user")[0]
	entry := suite.DeviceResource + " " + id + " "
	suite.WaitFor(ctx, t, "the device healthy", deviceHealth(t, "user"), HaveExactElements(entry+"Healthy"))
	t.Cleanup(func(ctx context.Context) { _ = markUnhealthy(ctx, t, node.Name) })
	t.Must(markUnhealthy(ctx, t, node.Name, id+"=too hot"), "make the device unhealthy")
	suite.WaitFor(ctx, t, "the device unhealthy", deviceHealth(t, "user"), HaveExactElements(entry+"Unhealthy"))
	changed := suite.WaitFor(ctx, t, "one device less", nodeNamed(t, node.Name), WithTransform(suite.DevicesOf,
		Equal(suite.DevicesOf(node)-1)))
	capacity := changed.Status.Capacity[suite.DeviceResource]
	t.Expect(capacity.Value()).To(Equal(suite.DevicesOf(node)), "the device is still there")
	t.Expect(running(ctx, t, "user").Status.ContainerStatuses[0].RestartCount).To(BeZero())
	t.Must(markUnhealthy(ctx, t, node.Name), "make the device healthy")
	suite.WaitFor(ctx, t, "the device healthy again", deviceHealth(t, "user"), HaveExactElements(entry+"Healthy"))
	suite.WaitFor(ctx, t, "all devices", nodeNamed(t, node.Name), WithTransform(suite.DevicesOf,
		Equal(suite.DevicesOf(node))))
}

// restartDriver deletes the driver's pod on a node and waits until the next one runs.
func restartDriver(ctx context.Context, t *suite.T, node string) {
	pods := t.Client.CoreV1().Pods(metav1.NamespaceSystem)
	find := func(ctx context.Context) (*corev1.Pod, error) {
		list, err := pods.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(list.Items, func(p corev1.Pod) bool {
			return strings.HasPrefix(p.Name, "device-driver-") && p.DeletionTimestamp == nil
		})
		if i < 0 {
			return nil, fmt.Errorf("no pod of the device driver on %s", node)
		}
		return &list.Items[i], nil
	}
	old, err := find(ctx)
	t.Must(err, "find the driver")
	t.Must(pods.Delete(ctx, old.Name, metav1.DeleteOptions{}), "delete the driver's pod")
	suite.WaitFor(ctx, t, "the next pod of the driver", find, And(HaveField("UID", Not(Equal(old.UID))),
		Satisfy(isReady(corev1.ConditionTrue))))
}

func devicePluginRestart(ctx context.Context, t *suite.T) {
	node := nodeWithDevices(ctx, t)
	t.CreatePod(ctx, on(withDevices(t.Pod("user", "sleep", "forever"), 1), node.Name))
	before := container(running(ctx, t, "user"), "main")
	id := devicesIn(ctx, t, "user")[0]
	restartDriver(ctx, t, node.Name)
	suite.WaitFor(ctx, t, "the device healthy", deviceHealth(t, "user"),
		HaveExactElements(suite.DeviceResource+" "+id+" Healthy"))
	suite.WaitFor(ctx, t, "all devices", nodeNamed(t, node.Name), WithTransform(suite.DevicesOf,
		Equal(suite.DevicesOf(node))))
	t.CreatePod(ctx, on(withDevices(t.Pod("others", "sleep", "forever"), suite.DevicesOf(node)-1), node.Name))
	running(ctx, t, "others")
	t.Expect(devicesIn(ctx, t, "others")).NotTo(ContainElement(id), "the running pod has it")
	t.Expect(container(running(ctx, t, "user"), "main").ContainerID).To(Equal(before.ContainerID))
}
