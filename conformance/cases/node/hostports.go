package node

import (
	"context"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/conformance/cases/traffic"
	"quintet.dev/quintet/conformance/suite"
)

// hostPortCases are about the ports of a node that lead to one pod.
func hostPortCases() []suite.Case {
	const (
		containers = "https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#Container"
		plugins    = "https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/network-plugins/" +
			"#support-hostport"
	)
	all := []suite.Case{
		{ID: "node/host-port", Run: hostPort, Reference: plugins,
			Requirement: "A hostPort MUST lead to the container's port, on the address of the pod's node, from every node."},
		{ID: "node/host-port-udp", Run: hostPortUDP, Reference: plugins,
			Requirement: "A hostPort of UDP MUST lead to the container's port, and the answer back to the client."},
		{ID: "node/host-port-ip", Run: hostPortIP, Reference: containers,
			Requirement: "Pods of one node with the same hostPort MUST each get their own traffic when their " +
				"hostIP or protocol differs."},
		{ID: "node/host-port-released", Run: hostPortReleased, Reference: plugins,
			Requirement: "The hostPort of a pod that is gone MUST NOT answer, and MUST lead to the next pod that has it."},
	}
	for i := range all {
		all[i].Since, all[i].Needs = "0.2", []suite.Feature{suite.PodNetwork}
	}
	return all
}

// sharedPort is one that nodes are unlikely to use, and no node port by default.
const sharedPort int32 = 28474

// onHostPort gives a server's port on its node. The scheduler keeps it off nodes where the port is taken.
func onHostPort(p *corev1.Pod, port corev1.ContainerPort) *corev1.Pod {
	p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, port)
	return p
}

// webPort is the HTTP port of servers, at the shared port of one of the node's addresses or of all with "".
func webPort(hostIP string) corev1.ContainerPort {
	return corev1.ContainerPort{Name: "web", ContainerPort: traffic.HTTPPort, HostPort: sharedPort, HostIP: hostIP}
}

// udpPort is the UDP port of servers, at the shared port of one of the node's addresses or of all with "".
func udpPort(hostIP string) corev1.ContainerPort {
	return corev1.ContainerPort{
		Name: "udp", ContainerPort: traffic.UDPPort, Protocol: corev1.ProtocolUDP, HostPort: sharedPort, HostIP: hostIP,
	}
}

func hostPort(ctx context.Context, t *suite.T) {
	nodes := traffic.Nodes(ctx, t)
	pods := []*corev1.Pod{onHostPort(traffic.OnNode(traffic.Server(t, "server", "web"), nodes[0].Name), webPort(""))}
	var clients []string
	for i := range min(2, len(nodes)) {
		for name, client := range map[string]*corev1.Pod{
			"pod-on-": traffic.Client(t, ""), "host-on-": traffic.OnHost(traffic.Client(t, "")),
		} {
			client.Name = name + nodes[i].Name
			clients = append(clients, client.Name)
			pods = append(pods, traffic.OnNode(client, nodes[i].Name))
		}
	}
	traffic.Start(ctx, t, pods...)
	for _, client := range clients {
		traffic.Answers(ctx, t, "an answer to "+client,
			traffic.Get(t, client, traffic.InternalIP(t, nodes[0]), sharedPort), Equal("server"))
	}
}

func hostPortUDP(ctx context.Context, t *suite.T) {
	node := traffic.Nodes(ctx, t)[0]
	traffic.Start(ctx, t, traffic.Client(t, "client"),
		onHostPort(traffic.OnNode(traffic.Server(t, "server", "web"), node.Name), udpPort("")))
	traffic.Answers(ctx, t, "an answer over UDP",
		traffic.Datagram(t, "client", traffic.InternalIP(t, node), sharedPort), HavePrefix("server "))
}

// hostPortIP connects from the network of the node, which alone reaches its loopback address.
func hostPortIP(ctx context.Context, t *suite.T) {
	node := traffic.Nodes(ctx, t)[0]
	address, loopback := traffic.InternalIP(t, node), "127.0.0.1"
	if traffic.IsIPv6(address) {
		loopback = "::1"
	}
	server := func(name string, port corev1.ContainerPort) *corev1.Pod {
		return onHostPort(traffic.OnNode(traffic.Server(t, name, "web"), node.Name), port)
	}
	traffic.Start(ctx, t, traffic.OnHost(traffic.OnNode(traffic.Client(t, "client"), node.Name)),
		server("inside", webPort(loopback)), server("outside", webPort(address)), server("udp", udpPort(address)))
	traffic.Answers(ctx, t, "an answer at the node's address", traffic.Get(t, "client", address, sharedPort),
		Equal("outside"))
	traffic.Answers(ctx, t, "an answer at the loopback address", traffic.Get(t, "client", loopback, sharedPort),
		Equal("inside"))
	traffic.Answers(ctx, t, "an answer over UDP", traffic.Datagram(t, "client", address, sharedPort),
		HavePrefix("udp "))
}

func hostPortReleased(ctx context.Context, t *suite.T) {
	node := traffic.Nodes(ctx, t)[0]
	server := func(name string) *corev1.Pod {
		return onHostPort(traffic.OnNode(traffic.Server(t, name, "web"), node.Name), webPort(""))
	}
	traffic.Start(ctx, t, traffic.Client(t, "client"), server("first"))
	attempt := traffic.Get(t, "client", traffic.InternalIP(t, node), sharedPort)
	traffic.Answers(ctx, t, "an answer of the first pod", attempt, Equal("first"))
	traffic.Remove(ctx, t, "first")
	traffic.Blocked(ctx, t, "no answer without the pod", attempt)
	traffic.Start(ctx, t, server("second"))
	traffic.Answers(ctx, t, "an answer of the second pod", attempt, Equal("second"))
}
