// Package proxy holds the cases that test kube-proxy: that cluster IPs lead to endpoints, by which protocols and ports
// and to which endpoints, traffic policies, and the addresses of a Service that lead in from outside.
package proxy

import (
	"slices"

	"quintet.dev/quintet/conformance/suite"
)

const (
	serviceDocs = "https://kubernetes.io/docs/concepts/services-networking/service/"
	virtualIPs  = "https://kubernetes.io/docs/reference/networking/virtual-ips/"
	sourceIP    = "https://kubernetes.io/docs/tutorials/services/source-ip/"
	apiFromPod  = "https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/"
)

// Cases returns the cases of kube-proxy.
func Cases() []suite.Case {
	all := slices.Concat(clusterIPCases(), portCases(), endpointCases(), topologyCases(), externalCases())
	for i := range all {
		all[i].Component, all[i].Since = suite.KubeProxy, "0.2"
		all[i].Needs = append(all[i].Needs,
			suite.HasScheduler, suite.HasControllers, suite.RunsPods, suite.PodNetwork, suite.ServiceNetwork)
	}
	return all
}

// clusterIPCases are about cluster IPs and their clients.
func clusterIPCases() []suite.Case {
	return []suite.Case{
		{ID: "kube-proxy/cluster-ip", Run: clusterIP, Reference: virtualIPs,
			Requirement: "A cluster IP MUST lead pods to every ready endpoint, on the same node and on others."},
		{ID: "kube-proxy/hairpin", Run: hairpin, Reference: virtualIPs,
			Requirement: "A pod MUST reach itself through the Service whose only endpoint it is."},
		{ID: "kube-proxy/no-endpoint", Run: noEndpoint, Reference: virtualIPs,
			Requirement: "A connection to a Service without endpoints MUST be refused, and not time out."},
		{ID: "kube-proxy/follows-endpoints", Run: followsEndpoints, Reference: virtualIPs,
			Requirement: "Traffic to a cluster IP MUST follow the endpoints: to a new one, and not to one that is gone."},
		{ID: "kube-proxy/client-address", Run: clientAddress, Reference: virtualIPs,
			Requirement: "An endpoint MUST see the address of the pod that connects to its cluster IP."},
		{ID: "kube-proxy/affinity", Run: affinity, Reference: virtualIPs + "#session-affinity",
			Requirement: "With sessionAffinity ClientIP all connections of a client MUST reach the same endpoint."},
		{ID: "kube-proxy/affinity-off", Run: affinityOff, Reference: virtualIPs + "#session-affinity",
			Requirement: "A Service whose session affinity is taken away MUST spread a client over its endpoints again."},
		{ID: "kube-proxy/node-client", Run: nodeClient, Reference: virtualIPs,
			Requirement: "A pod on the network of its node MUST reach cluster IPs, on every node."},
		{ID: "kube-proxy/kubernetes", Run: kubernetes, Reference: apiFromPod + "#directly-accessing-the-rest-api",
			Requirement: "Pods MUST reach the API server at the address and port that their environment names, with " +
				"the token and root certificate of their service account."},
	}
}

// portCases are about protocols and ports, and changes of what a Service says.
func portCases() []suite.Case {
	return []suite.Case{
		{ID: "kube-proxy/udp", Run: udp, Reference: serviceDocs + "#protocol-support",
			Requirement: "A cluster IP MUST lead UDP to an endpoint, and its answer back to the pod that asked."},
		{ID: "kube-proxy/several-ports", Run: severalPorts, Reference: serviceDocs + "#multi-port-services",
			Requirement: "Each port of a Service MUST lead to its own target port, and other ports nowhere."},
		{ID: "kube-proxy/two-protocols", Run: twoProtocols, Reference: serviceDocs + "#protocol-support",
			Requirement: "TCP and UDP at one port number of a Service MUST lead to the target port of their own."},
		{ID: "kube-proxy/named-target-port", Run: namedTargetPort, Reference: serviceDocs + "#field-spec-ports",
			Requirement: "A target port that is a name MUST lead to the port that each endpoint has by that name."},
		{ID: "kube-proxy/port-change", Run: portChange, Reference: serviceDocs + "#field-spec-ports",
			Requirement: "A Service whose port changes MUST answer at the new one, and no longer at the old one."},
		{ID: "kube-proxy/selector-change", Run: selectorChange, Reference: serviceDocs + "#defining-a-service",
			Requirement: "A Service whose selector changes MUST lead to the pods that it selects now, and to no other."},
		{ID: "kube-proxy/deleted-service", Run: deletedService, Reference: virtualIPs,
			Requirement: "The cluster IP of a deleted Service MUST NOT lead to its former endpoints."},
	}
}

// endpointCases are about which endpoints get traffic.
func endpointCases() []suite.Case {
	return []suite.Case{
		{ID: "kube-proxy/ready-only", Run: readyOnly, Reference: serviceDocs + "#endpointslices",
			Requirement: "A pod that is not ready MUST NOT get traffic of its Service, and MUST get it again once it is ready."},
		{ID: "kube-proxy/publish-not-ready", Run: publishNotReady,
			Reference:   "https://kubernetes.io/docs/reference/kubernetes-api/service-resources/service-v1/#ServiceSpec",
			Requirement: "With publishNotReadyAddresses a Service MUST lead also to pods that are not ready."},
		{ID: "kube-proxy/terminating", Run: terminating, Reference: virtualIPs + "#traffic-to-terminating-endpoints",
			Requirement: "Endpoints that terminate and still serve MUST get traffic when a Service has no other."},
		{ID: "kube-proxy/manual-endpoints", Run: manualEndpoints, Reference: serviceDocs + "#services-without-selectors",
			Requirement: "A Service without selector MUST lead to the endpoints of the EndpointSlice that is written for it."},
		{ID: "kube-proxy/node-endpoint", Run: nodeEndpoint, Reference: virtualIPs,
			Requirement: "A cluster IP MUST lead to an endpoint that is on the network of its node."},
		{ID: "kube-proxy/headless", Run: headless, Reference: serviceDocs + "#headless-services",
			Requirement: "A headless Service MUST NOT be proxied: its pods answer at their own ports alone."},
		{ID: "kube-proxy/external-name", Run: externalName, Reference: serviceDocs + "#externalname",
			Requirement: "The former cluster IP of a Service that became an ExternalName MUST NOT lead to its endpoints."},
		{ID: "kube-proxy/udp-follows", Run: udpFollows, Reference: virtualIPs,
			Requirement: "A flow of UDP from one source port MUST follow its Service to a new endpoint when its own is gone."},
		{ID: "kube-proxy/udp-late-endpoint", Run: udpLateEndpoint, Reference: virtualIPs,
			Requirement: "A flow of UDP that began before its Service had an endpoint MUST reach the first that comes."},
		{ID: "kube-proxy/internal-local", Run: internalLocal, Reference: virtualIPs + "#internal-traffic-policy",
			Needs:       []suite.Feature{suite.TwoNodes},
			Requirement: "With internalTrafficPolicy Local a pod MUST reach the endpoints of its own node alone."},
		{ID: "kube-proxy/internal-local-none", Run: internalLocalNone, Reference: virtualIPs + "#internal-traffic-policy",
			Needs:       []suite.Feature{suite.TwoNodes},
			Requirement: "With internalTrafficPolicy Local a pod whose node has no endpoint MUST NOT reach one elsewhere."},
	}
}

// externalCases are about the addresses that lead in from outside of the cluster.
func externalCases() []suite.Case {
	return []suite.Case{
		{ID: "kube-proxy/node-port", Run: nodePort, Reference: serviceDocs + "#type-nodeport",
			Requirement: "A node port MUST lead to the Service's endpoints on the address of every node."},
		{ID: "kube-proxy/node-port-udp", Run: nodePortUDP, Reference: serviceDocs + "#type-nodeport",
			Requirement: "A node port of UDP MUST lead to the Service's endpoints on the address of every node."},
		{ID: "kube-proxy/node-port-removed", Run: nodePortRemoved, Reference: serviceDocs + "#type-nodeport",
			Requirement: "The former node port of a Service that became a ClusterIP MUST NOT lead to its endpoints."},
		{ID: "kube-proxy/external-local", Run: externalLocal,
			Reference:   sourceIP + "#source-ip-for-services-with-type-nodeport",
			Needs:       []suite.Feature{suite.TwoNodes},
			Requirement: "With externalTrafficPolicy Local an endpoint MUST see the address of a client outside of its node."},
		{ID: "kube-proxy/external-local-none", Run: externalLocalNone, Reference: virtualIPs + "#external-traffic-policy",
			Needs:       []suite.Feature{suite.TwoNodes},
			Requirement: "With externalTrafficPolicy Local a node without endpoint MUST NOT forward traffic from outside."},
		{ID: "kube-proxy/external-ip", Run: externalIP, Reference: serviceDocs + "#external-ips",
			Requirement: "An external IP of a Service MUST lead pods to its endpoints, at the Service's port."},
		{ID: "kube-proxy/load-balancer", Run: loadBalancer, Reference: serviceDocs + "#load-balancer-ip-mode",
			Requirement: "An address of a Service's load balancer whose mode is VIP MUST lead pods to its endpoints."},
		{ID: "kube-proxy/source-ranges", Run: sourceRanges, Reference: serviceDocs + "#loadbalancer",
			Requirement: "loadBalancerSourceRanges MUST let clients inside of them through to the load " +
				"balancer's address, and no others."},
		{ID: "kube-proxy/health-check-node-port", Run: healthCheckNodePort,
			Reference: sourceIP + "#source-ip-for-services-with-type-loadbalancer",
			Requirement: "The healthCheckNodePort of a Service MUST answer 200 on nodes that have an endpoint " +
				"of it, and 503 on others."},
	}
}
