// Package traffic makes the pods and Services of cases about the network, and sends traffic between them from inside
// pods.
package traffic

import (
	"context"
	"slices"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

// The ports of every server: HTTP answers with the pod's name at / and the client's address at /remote, UDP with both.
const (
	HTTPPort  int32 = 8080
	OtherPort int32 = 8081 // HTTP, too
	UDPPort   int32 = 8082
)

// Server returns a pod of an app that serves on all three ports.
func Server(t *suite.T, name, app string) *corev1.Pod {
	p := t.Pod(name, "serve", "--text="+name, "--http=:8080,:8081", "--udp=:8082")
	p.Labels = map[string]string{"app": app}
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	// Ready waits until the server listens: an address without a listener would look blocked.
	p.Spec.Containers[0].ReadinessProbe = httpProbe("/healthz")
	return p
}

func httpProbe(path string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path,
			Port: intstr.FromInt32(HTTPPort)}},
		PeriodSeconds: 1, FailureThreshold: 1, TimeoutSeconds: 5,
	}
}

// Unready makes a server one that never becomes ready.
func Unready(p *corev1.Pod) *corev1.Pod {
	p.Spec.Containers[0].ReadinessProbe = httpProbe("/never")
	return p
}

// Client returns a pod that does nothing by itself.
func Client(t *suite.T, name string) *corev1.Pod { return t.Pod(name, "sleep", "forever") }

// OnNode binds a pod to a node.
func OnNode(p *corev1.Pod, node string) *corev1.Pod {
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{
				Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
			}},
		}}},
	}}
	return p
}

// OnHost gives a pod the network of its node.
func OnHost(p *corev1.Pod) *corev1.Pod {
	p.Spec.HostNetwork = true
	return p
}

// Start creates pods, in the case's namespace, and waits until all are ready.
func Start(ctx context.Context, t *suite.T, pods ...*corev1.Pod) map[string]*corev1.Pod {
	for _, p := range pods {
		t.CreatePod(ctx, p)
	}
	started := map[string]*corev1.Pod{}
	for _, p := range pods {
		started[p.Name] = suite.WaitFor(ctx, t, "pod "+p.Name+" ready", t.GetPod(p.Name), Satisfy(isReady))
	}
	return started
}

// WaitRunning waits until a pod runs, ready or not.
func WaitRunning(ctx context.Context, t *suite.T, name string) *corev1.Pod {
	return suite.WaitFor(ctx, t, "pod "+name+" running", t.GetPod(name), Satisfy(func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && p.Status.PodIP != "" && len(p.Status.ContainerStatuses) > 0 &&
			p.Status.ContainerStatuses[0].State.Running != nil
	}))
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Remove deletes a pod, at once, and waits until it is gone.
func Remove(ctx context.Context, t *suite.T, name string) {
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	err := t.Client.CoreV1().Pods(t.Namespace).Delete(ctx, name, now)
	t.Must(err, "delete pod %s", name)
	names := func(ctx context.Context) ([]string, error) {
		pods, err := t.ListPods("")(ctx)
		var names []string
		for _, p := range pods {
			names = append(names, p.Name)
		}
		return names, err
	}
	suite.WaitFor(ctx, t, "the end of pod "+name, names, Not(ContainElement(name)))
}

// Label changes labels of a pod; an empty value removes one.
func Label(ctx context.Context, t *suite.T, pod, key, value string) {
	_, err := t.Client.CoreV1().Pods(t.Namespace).Patch(ctx, pod, types.MergePatchType, labelPatch(key, value),
		metav1.PatchOptions{})
	t.Must(err, "label pod %s", pod)
}

// InNamespace creates another namespace, with a label, and returns the case in it. The namespace is
// deleted after the case.
func InNamespace(ctx context.Context, t *suite.T, key, value string) *suite.T {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: t.Namespace + "-", Labels: map[string]string{key: value},
	}}
	created, err := t.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	t.Must(err, "create a namespace")
	t.Cleanup(func(ctx context.Context) {
		_ = t.Client.CoreV1().Namespaces().Delete(ctx, created.Name, metav1.DeleteOptions{})
	})
	other := *t
	other.Namespace = created.Name
	suite.WaitFor(ctx, t, "the namespace's service account", func(ctx context.Context) (*corev1.ServiceAccount, error) {
		return t.Client.CoreV1().ServiceAccounts(created.Name).Get(ctx, "default", metav1.GetOptions{})
	}, Not(BeNil()))
	return &other
}

// Named gives a pod a name below that of its headless Service.
func Named(p *corev1.Pod, hostname, subdomain string) *corev1.Pod {
	p.Spec.Hostname, p.Spec.Subdomain = hostname, subdomain
	return p
}

// Nodes returns the nodes that run pods.
func Nodes(ctx context.Context, t *suite.T) []corev1.Node {
	nodes, err := t.RunningNodes(ctx)
	t.Must(err, "list the nodes")
	t.Expect(nodes).NotTo(BeEmpty(), "nodes that run pods")
	return nodes
}

// InternalIP returns the primary address of a node.
func InternalIP(t *suite.T, node corev1.Node) string {
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return address.Address
		}
	}
	t.Expect(node.Status.Addresses).To(ContainElement(HaveField("Type", corev1.NodeInternalIP)),
		"addresses of "+node.Name)
	return ""
}

// Expose creates a Service of the pods of an app, named like it: port 80 for HTTP.
func Expose(ctx context.Context, t *suite.T, app string, change ...func(*corev1.ServiceSpec)) *corev1.Service {
	spec := corev1.ServiceSpec{
		Selector: map[string]string{"app": app},
		Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(HTTPPort)}},
	}
	for _, f := range change {
		f(&spec)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: app}, Spec: spec}
	created, err := t.Client.CoreV1().Services(t.Namespace).Create(ctx, service, metav1.CreateOptions{})
	t.Must(err, "create Service %s", app)
	return created
}

// Headless makes a Service one without a cluster IP.
func Headless(s *corev1.ServiceSpec) { s.ClusterIP = corev1.ClusterIPNone }

// WithoutSelector makes a Service one whose EndpointSlices the case writes.
func WithoutSelector(s *corev1.ServiceSpec) { s.Selector = nil }

// UDP makes port 80 of a Service one of UDP.
func UDP(s *corev1.ServiceSpec) {
	s.Ports = []corev1.ServicePort{{
		Name: "udp", Port: 80, Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromInt32(UDPPort),
	}}
}

// PatchService changes a Service by a JSON merge patch.
func PatchService(ctx context.Context, t *suite.T, name, patch string) *corev1.Service {
	changed, err := t.Client.CoreV1().Services(t.Namespace).Patch(ctx, name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{})
	t.Must(err, "change Service %s", name)
	return changed
}

// AddSlice writes the EndpointSlice of a Service without selector: one address for its port of HTTP.
func AddSlice(ctx context.Context, t *suite.T, service, address string, endpoint discoveryv1.Endpoint) {
	endpoint.Addresses = []string{address}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: addressType(address),
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To(HTTPPort)}},
		Endpoints:   []discoveryv1.Endpoint{endpoint},
	}
	_, err := t.Client.DiscoveryV1().EndpointSlices(t.Namespace).Create(ctx, slice, metav1.CreateOptions{})
	t.Must(err, "create the EndpointSlice of %s", service)
}
