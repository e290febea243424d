package node

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quintet.dev/quintet/conformance/suite"
)

func sameNetwork(ctx context.Context, t *suite.T) {
	p := server(t, "shared", "--text=one network")
	p.Spec.Containers = append(p.Spec.Containers,
		corev1.Container{Name: "second", Image: t.Image, Args: []string{"sleep", "forever"}})
	p.Spec.Containers[0].Name, p.Spec.Containers[1].Name = "server", "main"
	t.CreatePod(ctx, p)
	ip := running(ctx, t, "shared").Status.PodIP
	for _, host := range []string{"127.0.0.1", ip} {
		out, _, err := execute(ctx, t, "shared", "", "testimage", "get", "http://"+host+":8080/")
		t.Must(err, "reach the other container at %s", host)
		t.Expect(out).To(Equal("one network\n"))
	}
}

// onNode returns a serving pod on the i-th node that runs pods.
func onNode(t *suite.T, name, node string) *corev1.Pod {
	p := server(t, name)
	p.Spec.Affinity = &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
				Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}},
	}
	return p
}

func podNetwork(ctx context.Context, t *suite.T) {
	nodes, err := t.RunningNodes(ctx)
	t.Must(err, "list the nodes")
	t.CreatePod(ctx, onNode(t, "here", nodes[0].Name))
	t.CreatePod(ctx, onNode(t, "there", nodes[1].Name))
	here, there := running(ctx, t, "here").Status.PodIP, running(ctx, t, "there").Status.PodIP
	t.Expect(here).NotTo(Equal(there))
	for from, addresses := range map[string][2]string{"here": {here, there}, "there": {there, here}} {
		seen := func(ctx context.Context) (string, error) {
			out, _, err := execute(ctx, t, from, "", "testimage", "get", "http://"+addresses[1]+":8080/remote")
			return out, err
		}
		suite.WaitFor(ctx, t, "the other node's pod sees the address of "+from, seen, HavePrefix(addresses[0]+":"))
	}
}

// proxied uses the way by which an API server also reaches webhooks and extension servers.
func proxied(ctx context.Context, t *suite.T) {
	nodes, err := t.RunningNodes(ctx)
	t.Must(err, "list the nodes")
	get := func(resource, name string) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			body, err := t.Client.CoreV1().RESTClient().Get().Namespace(t.Namespace).
				Resource(resource).Name(name).SubResource("proxy").Suffix("/").DoRaw(ctx)
			return string(body), err
		}
	}
	for i, node := range nodes {
		name := fmt.Sprintf("server-%d", i)
		p := onNode(t, name, node.Name)
		p.Labels = map[string]string{"app": name}
		p.Spec.Containers[0].Args = append(p.Spec.Containers[0].Args, "--text="+name)
		t.CreatePod(ctx, p)
		_, err := t.Client.CoreV1().Services(t.Namespace).Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.ServiceSpec{Selector: p.Labels, Ports: []corev1.ServicePort{
				{Name: "web", Port: 80, TargetPort: intstr.FromInt32(8080)}}},
		}, metav1.CreateOptions{})
		t.Must(err, "create a service")
	}
	for i := range nodes {
		name := fmt.Sprintf("server-%d", i)
		running(ctx, t, name)
		suite.WaitFor(ctx, t, "pod "+name+" answers through the API server", get("pods", name+":8080"),
			Equal(name+"\n"))
		suite.WaitFor(ctx, t, "service "+name+" answers through the API server", get("services", name+":web"),
			Equal(name+"\n"))
	}
}

func heartbeat(ctx context.Context, t *suite.T) {
	nodes, err := t.RunningNodes(ctx)
	t.Must(err, "list the nodes")
	for _, node := range nodes {
		lease, err := t.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node.Name,
			metav1.GetOptions{})
		t.Must(err, "get the lease of %s", node.Name)
		t.Expect(*lease.Spec.HolderIdentity).To(Equal(node.Name))
		age := time.Since(lease.Spec.RenewTime.Time)
		t.Expect(age).To(BeNumerically("<", time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second),
			"the lease of %s", node.Name)
	}
}
