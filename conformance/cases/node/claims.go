package node

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

const dynamicResources = "https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/"

func claimCases() []suite.Case {
	return since("0.3", []suite.Case{
		{ID: "node/claim", Run: claimPrepared, Reference: dynamicResources,
			Requirement: "A container that uses a claim MUST get the claim's devices, as the driver prepared them with the " +
				"claim's parameters."},
		{ID: "node/claim-shared", Run: claimShared, Reference: dynamicResources,
			Requirement: "Pods that share a claim MUST get the same device, and the claim stay allocated until the last of " +
				"them " +
				"has ended."},
		{ID: "node/claim-template", Run: claimTemplate, Reference: dynamicResources + "#resourceclaims-templates",
			Requirement: "Each pod of a claim template MUST get a claim and a device of its own, which goes with it."},
		{ID: "node/claim-requests", Run: claimRequests, Reference: dynamicResources,
			Requirement: "A container that names a request of a claim MUST get the devices of that request only."},
		{ID: "node/claim-init-container", Run: claimInit, Reference: dynamicResources,
			Requirement: "Init containers MUST have the devices of their claims, too."},
		{ID: "node/claim-released", Run: claimReleased, Reference: dynamicResources,
			Requirement: "The claim of a pod that has ended MUST be deallocated, and its device be given to others."},
		{ID: "node/claim-admin-access", Run: claimAdmin, Reference: dynamicResources + "#admin-access",
			Requirement: "A claim with admin access MUST get devices that are in use, and take them from no other."},
		{ID: "node/claim-prioritized-list", Run: claimPrioritized, Reference: dynamicResources + "#prioritized-list",
			Serial:      true, // other cases may have the devices of the better alternative
			Requirement: "The first alternative of a request that can be satisfied MUST be what the container gets."},
		{ID: "node/claim-extended-resource", Run: claimExtended,
			Reference: dynamicResources + "#extended-resource",
			Requirement: "A container that asks for the extended resource of a device class MUST get a device by a claim that " +
				"is " +
				"made for its pod."},
		{ID: "node/claim-unprepared", Run: claimBroken, Reference: dynamicResources,
			Requirement: "A pod whose claim the driver can't prepare MUST not start, and an event MUST say why."},
		{ID: "node/claim-device-unhealthy", Run: claimUnhealthy, Serial: true,
			Reference: dynamicResources + "#device-health-monitoring",
			Requirement: "The health of a claim's devices MUST be reported in the status of the pod, with the driver's " +
				"message."},
		{ID: "node/claim-driver-restart", Run: claimDriverRestart, Reference: dynamicResources, Serial: true,
			Requirement: "A pod MUST keep its devices when the driver is restarted, and its claim be unprepared once it has " +
				"ended."},
	}, suite.ClaimDevices, suite.HasControllers)
}

// claimedVariable begins the names of the variables that tell of a device; the value is the request.
const claimedVariable = "QUINTET_CLAIM_"

// ask is a request for devices of the driver's class, with selectors in CEL.
func ask(name string, selectors ...string) resourcev1.DeviceRequest {
	exact := &resourcev1.ExactDeviceRequest{DeviceClassName: suite.DeviceDriver}
	for _, s := range selectors {
		exact.Selectors = append(exact.Selectors,
			resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: s}})
	}
	return resourcev1.DeviceRequest{Name: name, Exactly: exact}
}

func claimSpec(requests ...resourcev1.DeviceRequest) resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}}
}

// parameters are opaque to all but the driver.
func parameters(raw string) []resourcev1.DeviceClaimConfiguration {
	return []resourcev1.DeviceClaimConfiguration{{DeviceConfiguration: resourcev1.DeviceConfiguration{
		Opaque: &resourcev1.OpaqueDeviceConfiguration{Driver: suite.DeviceDriver,
			Parameters: runtime.RawExtension{Raw: []byte(raw)}}}}}
}

func createClaim(ctx context.Context, t *suite.T, name string, spec resourcev1.ResourceClaimSpec) {
	_, err := t.Client.ResourceV1().ResourceClaims(t.Namespace).Create(ctx,
		&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	t.Must(err, "create resource claim %s", name)
}

func getClaim(t *suite.T, name string) func(context.Context) (*resourcev1.ResourceClaim, error) {
	return func(ctx context.Context) (*resourcev1.ResourceClaim, error) {
		return t.Client.ResourceV1().ResourceClaims(t.Namespace).Get(ctx, name, metav1.GetOptions{})
	}
}

// using has all containers of a pod use a claim.
func using(p *corev1.Pod, claim string) *corev1.Pod {
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "devices", ResourceClaimName: &claim}}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			list[i].Resources.Claims = []corev1.ResourceClaim{{Name: "devices"}}
		}
	}
	return p
}

// allocated are the devices of a claim, as pool/device.
func allocated(c *resourcev1.ResourceClaim) []string {
	names := []string{}
	if c.Status.Allocation != nil {
		for _, r := range c.Status.Allocation.Devices.Results {
			names = append(names, r.Pool+"/"+r.Device)
		}
	}
	return names
}

// variableOf is the variable that a container with a device has.
func variableOf(allocated, request string) string {
	_, device, _ := strings.Cut(allocated, "/")
	return claimedVariable + strings.ToUpper(strings.ReplaceAll(device, "-", "_")) + "=" + request
}

// claimed returns those lines of a list of variables that tell of devices.
func claimed(lines string) []string {
	var found []string
	for line := range strings.Lines(lines) {
		if strings.HasPrefix(line, claimedVariable) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func claimPrepared(ctx context.Context, t *suite.T) {
	spec := claimSpec(ask("one"))
	spec.Devices.Config = parameters(`{"apiVersion":"device.quintet.dev/v1","kind":"Parameters","env":{"MODE":"fast"}}`)
	createClaim(ctx, t, "mine", spec)
	t.CreatePod(ctx, using(t.Pod("user", "env", "then", "ls", "/dev/quintet", "then", "sleep", "forever"), "mine"))
	p := running(ctx, t, "user")
	c, err := getClaim(t, "mine")(ctx)
	t.Must(err, "read the claim")
	names := allocated(c)
	t.Expect(names).To(HaveLen(1))
	t.Expect(c.Status.ReservedFor).To(HaveExactElements(HaveField("UID", p.UID)))
	_, device, _ := strings.Cut(names[0], "/")
	waitLog(ctx, t, "user", device+"\n")
	out := log(ctx, t, "user", &corev1.PodLogOptions{})
	t.Expect(claimed(out)).To(Equal([]string{variableOf(names[0], "one")}))
	t.Expect(out).To(ContainSubstring("MODE=fast\n"), "what the claim's parameters ask for")
	_, _, err = execute(ctx, t, "user", "", "testimage", "write", "/dev/quintet/"+device, "x")
	t.Must(err, "use the device, which its control group must allow")
}

func claimShared(ctx context.Context, t *suite.T) {
	createClaim(ctx, t, "shared", claimSpec(ask("one")))
	for _, name := range []string{"first", "second"} {
		t.CreatePod(ctx, using(t.Pod(name, "env", "then", "sleep", "forever"), "shared"))
	}
	first, second := running(ctx, t, "first"), running(ctx, t, "second")
	t.Expect(second.Spec.NodeName).To(Equal(first.Spec.NodeName))
	c, err := getClaim(t, "shared")(ctx)
	t.Must(err, "read the claim")
	names := allocated(c)
	t.Expect(names).To(HaveLen(1))
	for _, name := range []string{"first", "second"} {
		waitLog(ctx, t, name, variableOf(names[0], "one"))
	}
	remove(ctx, t, "first")
	suite.WaitFor(ctx, t, "the claim reserved for the second pod only", getClaim(t, "shared"),
		HaveField("Status.ReservedFor", HaveExactElements(HaveField("UID", second.UID))))
	_, _, err = execute(ctx, t, "second", "", "testimage", "ls", "/dev/quintet")
	t.Must(err, "see that the second pod has the device still")
	remove(ctx, t, "second")
	suite.WaitFor(ctx, t, "the claim deallocated", getClaim(t, "shared"), WithTransform(allocated, BeEmpty()))
}

func claimTemplate(ctx context.Context, t *suite.T) {
	_, err := t.Client.ResourceV1().ResourceClaimTemplates(t.Namespace).Create(ctx, &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "each"}, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: claimSpec(ask("one"))},
	}, metav1.CreateOptions{})
	t.Must(err, "create the template")
	published, err := t.ClaimSlices(ctx, mustNodes(ctx, t))
	t.Must(err, "read the devices")
	var claims, devices []string
	for _, name := range []string{"first", "second"} {
		p := on(using(t.Pod(name, "sleep", "forever"), ""), *published[0].Spec.NodeName)
		p.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "devices", ResourceClaimTemplateName: ptr.To("each")}
		t.CreatePod(ctx, p)
		statuses := running(ctx, t, name).Status.ResourceClaimStatuses
		t.Expect(statuses).To(HaveExactElements(And(HaveField("Name", "devices"),
			HaveField("ResourceClaimName", Not(BeNil())))))
		claims = append(claims, *statuses[0].ResourceClaimName)
		c, err := getClaim(t, claims[len(claims)-1])(ctx)
		t.Must(err, "read the claim")
		devices = append(devices, allocated(c)...)
	}
	t.Expect(devices).To(HaveLen(2))
	t.Expect(devices[0]).NotTo(Equal(devices[1]))
	remove(ctx, t, "first")
	suite.WaitFor(ctx, t, "only the second pod's claim", func(ctx context.Context) ([]resourcev1.ResourceClaim, error) {
		list, err := t.Client.ResourceV1().ResourceClaims(t.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return list.Items, nil
	}, HaveExactElements(HaveField("Name", claims[1])))
}

func mustNodes(ctx context.Context, t *suite.T) []corev1.Node {
	nodes, err := t.RunningNodes(ctx)
	t.Must(err, "list the nodes")
	return nodes
}

func claimRequests(ctx context.Context, t *suite.T) {
	createClaim(ctx, t, "both", claimSpec(ask("left"), ask("right")))
	p := t.Pod("split", "env")
	p.Spec.Containers = append(p.Spec.Containers, *p.Spec.Containers[0].DeepCopy(), *p.Spec.Containers[0].DeepCopy())
	p.Spec.Containers[1].Name, p.Spec.Containers[2].Name = "right", "all"
	using(p, "both")
	p.Spec.Containers[0].Resources.Claims[0].Request = "left"
	p.Spec.Containers[1].Resources.Claims[0].Request = "right"
	t.CreatePod(ctx, p)
	ended(ctx, t, "split", corev1.PodSucceeded)
	read := func(name string) []string {
		return claimed(log(ctx, t, "split", &corev1.PodLogOptions{Container: name}))
	}
	t.Expect(read("main")).To(HaveExactElements(HaveSuffix("=left")))
	t.Expect(read("right")).To(HaveExactElements(HaveSuffix("=right")))
	t.Expect(read("all")).To(ConsistOf(HaveSuffix("=left"), HaveSuffix("=right")))
}

func claimInit(ctx context.Context, t *suite.T) {
	createClaim(ctx, t, "mine", claimSpec(ask("one")))
	p := t.Pod("prepared", "env")
	first := *p.Spec.Containers[0].DeepCopy()
	first.Name = "first"
	p.Spec.InitContainers = []corev1.Container{first}
	t.CreatePod(ctx, using(p, "mine"))
	ended(ctx, t, "prepared", corev1.PodSucceeded)
	before := claimed(log(ctx, t, "prepared", &corev1.PodLogOptions{Container: "first"}))
	t.Expect(before).To(HaveLen(1))
	t.Expect(claimed(log(ctx, t, "prepared", &corev1.PodLogOptions{Container: "main"}))).To(Equal(before))
}

func claimReleased(ctx context.Context, t *suite.T) {
	published, err := t.ClaimSlices(ctx, mustNodes(ctx, t))
	t.Must(err, "read the devices")
	node := *published[0].Spec.NodeName
	last := len(published[0].Spec.Devices) - 1
	same := ask("one", fmt.Sprintf(`device.attributes[%q].index == %d`, suite.DeviceDriver, last))
	for _, name := range []string{"first", "second"} {
		createClaim(ctx, t, name, claimSpec(same))
		t.CreatePod(ctx, on(using(t.Pod(name, "env"), name), node))
		ended(ctx, t, name, corev1.PodSucceeded)
		t.Expect(claimed(log(ctx, t, name, &corev1.PodLogOptions{}))).To(HaveLen(1))
		suite.WaitFor(ctx, t, "claim "+name+" deallocated", getClaim(t, name), And(
			WithTransform(allocated, BeEmpty()), HaveField("Status.ReservedFor", BeEmpty())))
	}
}

func claimAdmin(ctx context.Context, t *suite.T) {
	_, err := t.Client.CoreV1().Namespaces().Patch(ctx, t.Namespace, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"resource.kubernetes.io/admin-access":"true"}}}`), metav1.PatchOptions{})
	t.Must(err, "let the namespace have admin access")
	createClaim(ctx, t, "user", claimSpec(ask("one")))
	t.CreatePod(ctx, using(t.Pod("user", "sleep", "forever"), "user"))
	user := running(ctx, t, "user")
	all := ask("every")
	all.Exactly.AdminAccess, all.Exactly.AllocationMode = ptr.To(true), resourcev1.DeviceAllocationModeAll
	createClaim(ctx, t, "admin", claimSpec(all))
	t.CreatePod(ctx, on(using(t.Pod("admin", "env"), "admin"), user.Spec.NodeName))
	ended(ctx, t, "admin", corev1.PodSucceeded)
	c, err := getClaim(t, "user")(ctx)
	t.Must(err, "read the claim")
	t.Expect(claimed(log(ctx, t, "admin", &corev1.PodLogOptions{}))).To(ContainElement(variableOf(allocated(c)[0],
		"every")))
}

func claimPrioritized(ctx context.Context, t *suite.T) {
	alternative := func(name, model string) resourcev1.DeviceSubRequest {
		expression := `device.attributes["` + suite.DeviceDriver + `"].model == "` + model + `"`
		return resourcev1.DeviceSubRequest{Name: name, DeviceClassName: suite.DeviceDriver,
			Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}}
	}
	createClaim(ctx, t, "either", claimSpec(resourcev1.DeviceRequest{Name: "any",
		FirstAvailable: []resourcev1.DeviceSubRequest{alternative("best", "colossal"), alternative("good", "small"),
			alternative("poor", "large")}}))
	p := using(t.Pod("chooser", "env"), "either")
	p.Spec.Containers[0].Resources.Claims[0].Request = "any"
	t.CreatePod(ctx, p)
	ended(ctx, t, "chooser", corev1.PodSucceeded)
	t.Expect(claimed(log(ctx, t, "chooser", &corev1.PodLogOptions{}))).To(HaveExactElements(HaveSuffix("=any/good")))
}

func claimExtended(ctx context.Context, t *suite.T) {
	class, err := t.Client.ResourceV1().DeviceClasses().Get(ctx, suite.DeviceDriver, metav1.GetOptions{})
	t.Must(err, "read the device class")
	t.Expect(class.Spec.ExtendedResourceName).NotTo(BeNil(), "the class has an extended resource")
	p := t.Pod("extended", "env", "then", "sleep", "forever")
	p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
		corev1.ResourceName(*class.Spec.ExtendedResourceName): resource.MustParse("1")}
	t.CreatePod(ctx, p)
	status := running(ctx, t, "extended").Status.ExtendedResourceClaimStatus
	t.Expect(status).NotTo(BeNil(), "the claim is reported")
	t.Expect(status.RequestMappings).To(HaveExactElements(And(HaveField("ContainerName", "main"),
		HaveField("ResourceName", *class.Spec.ExtendedResourceName))))
	waitLog(ctx, t, "extended", claimedVariable)
	remove(ctx, t, "extended")
	suite.WaitFor(ctx, t, "the claim gone", func(ctx context.Context) ([]resourcev1.ResourceClaim, error) {
		list, err := t.Client.ResourceV1().ResourceClaims(t.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return list.Items, nil
	}, BeEmpty())
}

func claimBroken(ctx context.Context, t *suite.T) {
	spec := claimSpec(ask("one"))
	spec.Devices.Config = parameters(`{"apiVersion":"device.quintet.dev/v1","kind":"Parameters","colour":"red"}`)
	createClaim(ctx, t, "broken", spec)
	t.CreatePod(ctx, using(t.Pod("waiting", "exit", "0"), "broken"))
	suite.WaitFor(ctx, t, "an event of the failure", messagesOf(t, "waiting", "FailedPrepareDynamicResources"),
		ContainElement(ContainSubstring("colour")))
	p, err := t.GetPod("waiting")(ctx)
	t.Must(err, "read the pod")
	t.Expect(p.Status.Phase).To(Equal(corev1.PodPending))
	t.Expect(container(p, "main").ContainerID).To(BeEmpty())
}

// messagesOf are the messages of a pod's events with a reason, for WaitFor.
func messagesOf(t *suite.T, pod, reason string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		list, err := t.Client.CoreV1().Events(t.Namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.name=" + pod + ",reason=" + reason})
		if err != nil {
			return nil, err
		}
		messages := []string{}
		for i := range list.Items {
			messages = append(messages, list.Items[i].Message)
		}
		return messages, nil
	}
}

func claimUnhealthy(ctx context.Context, t *suite.T) {
	createClaim(ctx, t, "mine", claimSpec(ask("one")))
	p := using(t.Pod("user", "sleep", "forever"), "mine")
	p.Spec.Containers[0].Resources.Claims[0].Request = "one"
	t.CreatePod(ctx, p)
	node := running(ctx, t, "user").Spec.NodeName
	c, err := getClaim(t, "mine")(ctx)
	t.Must(err, "read the claim")
	name := allocated(c)[0]
	entry := "claim:devices/one " + suite.DeviceDriver + "/" + name + " "
	suite.WaitFor(ctx, t, "the device healthy", deviceHealth(t, "user"), HaveExactElements(entry+"Healthy"))
	t.Cleanup(func(ctx context.Context) { _ = markUnhealthy(ctx, t, node) })
	_, device, _ := strings.Cut(name, "/")
	t.Must(markUnhealthy(ctx, t, node, device+"=too hot"), "make the device unhealthy")
	suite.WaitFor(ctx, t, "the device unhealthy", deviceHealth(t, "user"), HaveExactElements(entry+"Unhealthy too hot"))
	t.Must(markUnhealthy(ctx, t, node), "make the device healthy")
	suite.WaitFor(ctx, t, "the device healthy again", deviceHealth(t, "user"), HaveExactElements(entry+"Healthy"))
}

func claimDriverRestart(ctx context.Context, t *suite.T) {
	createClaim(ctx, t, "mine", claimSpec(ask("one")))
	t.CreatePod(ctx, using(t.Pod("user", "env", "then", "sleep", "forever"), "mine"))
	p := running(ctx, t, "user")
	before, err := getClaim(t, "mine")(ctx)
	t.Must(err, "read the claim")
	restartDriver(ctx, t, p.Spec.NodeName)
	after, err := getClaim(t, "mine")(ctx)
	t.Must(err, "read the claim")
	t.Expect(allocated(after)).To(Equal(allocated(before)))
	t.Expect(container(running(ctx, t, "user"), "main").ContainerID).To(Equal(container(p, "main").ContainerID))
	remove(ctx, t, "user")
	suite.WaitFor(ctx, t, "the pod gone", gone(t, "user"), BeTrue())
	suite.WaitFor(ctx, t, "the claim deallocated", getClaim(t, "mine"), WithTransform(allocated, BeEmpty()))
	t.CreatePod(ctx, using(t.Pod("next", "env"), "mine"))
	ended(ctx, t, "next", corev1.PodSucceeded)
	t.Expect(claimed(log(ctx, t, "next", &corev1.PodLogOptions{}))).To(HaveLen(1))
}
