package core

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// validService is a service with defaults and an address.
func validService() *corev1.Service {
	s := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1"},
		Ports: []corev1.ServicePort{{Port: 80}}, IPFamilies: []corev1.IPFamily{"IPv4"},
		IPFamilyPolicy: new(corev1.IPFamilyPolicySingleStack)}}
	DefaultService(s)
	return s
}

// typed makes a service one of another type, with that type's defaults.
func typed(kind corev1.ServiceType) func(s *corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec.Type = kind
		if kind == corev1.ServiceTypeExternalName {
			s.Spec = corev1.ServiceSpec{Type: kind, ExternalName: "a.b", SessionAffinity: "None"}
		}
		DefaultService(s)
	}
}

func TestServices(t *testing.T) {
	type object = *corev1.Service
	also := func(kind corev1.ServiceType, change func(s *corev1.ServiceSpec)) func(object) {
		return func(s object) {
			typed(kind)(s)
			change(&s.Spec)
		}
	}
	spec := func(change func(s *corev1.ServiceSpec)) func(object) { return func(s object) { change(&s.Spec) } }
	const lb, name, nodePort = corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName,
		corev1.ServiceTypeNodePort
	const onlyLB = "may only be used when `type` is 'LoadBalancer'"
	checkRules(t, "spec.", validService, ValidateService, []ruleCase[object]{
		{"cluster IP", func(object) {}, nil},
		{"node port", typed(nodePort), nil},
		{"load balancer", typed(lb), nil},
		{"external name", typed(name), nil},
		{"no type", spec(func(s *corev1.ServiceSpec) { s.Type = "" }), texts{"type: Required value"}},
		{"another type", spec(func(s *corev1.ServiceSpec) { s.Type = "Other" }), texts{
			`type: Unsupported value: "Other": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"`}},
		{"no ports", spec(func(s *corev1.ServiceSpec) { s.Ports = nil }), texts{"ports: Required value"}},
		{"headless without ports",
			spec(func(s *corev1.ServiceSpec) { s.Ports, s.ClusterIP, s.ClusterIPs = nil, "None", texts{"None"} }), nil},
		{"headless node port", also(nodePort,
			func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "None", texts{"None"} }),
			texts{`clusterIPs[0]: Invalid value: "None": may not be set to 'None' for NodePort services`}},
		{"name with addresses", also(name, func(s *corev1.ServiceSpec) {
			s.ClusterIPs, s.IPFamilies, s.IPFamilyPolicy = texts{"10.0.0.1"}, []corev1.IPFamily{"IPv4"},
				new(corev1.IPFamilyPolicySingleStack)
		}), texts{"clusterIPs: Forbidden: may not be set for ExternalName services",
			"ipFamilies: Forbidden: may not be set for ExternalName services",
			"ipFamilyPolicy: Forbidden: may not be set for ExternalName services"}},
		{"no name", also(name, func(s *corev1.ServiceSpec) { s.ExternalName = "." }),
			texts{"externalName: Required value"}},
		{"name with a dot at its end", also(name, func(s *corev1.ServiceSpec) { s.ExternalName = "a.b." }), nil},
		{"bad name", also(name, func(s *corev1.ServiceSpec) { s.ExternalName = "a_b" }),
			texts{`externalName: Invalid value: "a_b": a lowercase RFC 1123 subdomain must…`}},
		{"selector", spec(func(s *corev1.ServiceSpec) { s.Selector = map[string]string{"a": "b c"} }),
			texts{`selector: Invalid value: "b c": a valid label must be…`}},
		{"topology", func(s object) {
			s.Annotations = map[string]string{corev1.DeprecatedAnnotationTopologyAwareHints: "auto",
				corev1.AnnotationTopologyMode: "none"}
		}, texts{`metadata.annotations[service.kubernetes.io/topology-mode]: Invalid value: "none": must match ` +
			"annotations[service.kubernetes.io/topology-aware-hints] when both are specified"}},
		{"no affinity", spec(func(s *corev1.ServiceSpec) { s.SessionAffinity = "" }),
			texts{"sessionAffinity: Required value"}},
		{"another affinity", spec(func(s *corev1.ServiceSpec) { s.SessionAffinity = "Cookie" }),
			texts{`sessionAffinity: Unsupported value: "Cookie": supported values: "ClientIP", "None"`}},
		{"affinity without a time", spec(func(s *corev1.ServiceSpec) { s.SessionAffinity = "ClientIP" }),
			texts{"sessionAffinityConfig: Required value: when session affinity type is ClientIP"}},
		{"affinity of no time", spec(func(s *corev1.ServiceSpec) {
			s.SessionAffinity, s.SessionAffinityConfig = "ClientIP",
				&corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(0))}}
		}),
			texts{"sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: must be greater than 0 and less than " +
				"86400"}},
		{"affinity of a day", spec(func(s *corev1.ServiceSpec) {
			s.SessionAffinity, s.SessionAffinityConfig = "ClientIP",
				&corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(86400))}}
		}), nil},
		{"time without affinity",
			spec(func(s *corev1.ServiceSpec) { s.SessionAffinityConfig = &corev1.SessionAffinityConfig{} }),
			texts{"sessionAffinityConfig: Forbidden: must not be set when session affinity is None"}},
		{"external addresses", func(s object) {
			s.Spec.ExternalIPs = texts{"1.2.3.4", "fd00::1"}
			DefaultService(s)
		}, nil},
		{
			"bad external addresses",
			func(s object) {
				s.Spec.ExternalIPs = texts{"x", "127.0.0.1", "0.0.0.0", "169.254.1.1", "224.0.0.1"}
				DefaultService(s)
			},
			texts{
				`externalIPs[0]: Invalid value: "x": must be a valid IP address…`,
				`externalIPs[1]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)`,
				`externalIPs[2]: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)`,
				`externalIPs[3]: Invalid value: "169.254.1.1": may not be in the link-local range (169.254.0.0/16, fe80::/10)`,
				`externalIPs[4]: Invalid value: "224.0.0.1": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)`,
			},
		},
		{"load balancer's ports", spec(func(s *corev1.ServiceSpec) { s.AllocateLoadBalancerNodePorts = new(true) }),
			texts{"allocateLoadBalancerNodePorts: Forbidden: " + onlyLB}},
		{"load balancer without them", also(lb, func(s *corev1.ServiceSpec) { s.AllocateLoadBalancerNodePorts = nil }),
			texts{"allocateLoadBalancerNodePorts: Required value"}},
		{"class", also(lb, func(s *corev1.ServiceSpec) { s.LoadBalancerClass = new("a.b/C") }), nil},
		{"bad class", also(lb, func(s *corev1.ServiceSpec) { s.LoadBalancerClass = new("") }),
			texts{`loadBalancerClass: Invalid value: "": name part must be non-empty`,
				`loadBalancerClass: Invalid value: "": name part must consist of…`}},
		{"class of no load balancer", spec(func(s *corev1.ServiceSpec) { s.LoadBalancerClass = new("a") }),
			texts{"loadBalancerClass: Forbidden: " + onlyLB}},
		{"ranges", also(lb,
			func(s *corev1.ServiceSpec) { s.LoadBalancerSourceRanges = texts{"10.0.0.0/8", " fd00::/8 "} }), nil},
		{"bad range", also(lb,
			func(s *corev1.ServiceSpec) { s.LoadBalancerSourceRanges = texts{"10.0.0.0/8", "10.0.0.0"} }),
			texts{`LoadBalancerSourceRanges[1]: Invalid value: "10.0.0.0": must be a valid CIDR value…`}},
		{"ranges of no load balancer",
			spec(func(s *corev1.ServiceSpec) { s.LoadBalancerSourceRanges = texts{"10.0.0.0/8"} }),
			texts{"LoadBalancerSourceRanges: Forbidden: " + onlyLB}},
		{
			"annotated ranges",
			func(s object) {
				typed(lb)(s)
				s.Annotations = map[string]string{corev1.AnnotationLoadBalancerSourceRangesKey: " 10.0.0.0/8, x"}
			},
			texts{
				`metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]: Invalid value: "x": must be a valid CIDR value…`,
			},
		},
		{"traffic from outside", spec(func(s *corev1.ServiceSpec) { s.ExternalTrafficPolicy = "Local" }),
			texts{`externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services`}},
		{"no policy", also(nodePort, func(s *corev1.ServiceSpec) { s.ExternalTrafficPolicy = "" }),
			texts{"externalTrafficPolicy: Required value"}},
		{"another policy", also(nodePort, func(s *corev1.ServiceSpec) { s.ExternalTrafficPolicy = "Near" }),
			texts{`externalTrafficPolicy: Unsupported value: "Near": supported values: "Cluster", "Local"`}},
		{"local without checks", also(lb, func(s *corev1.ServiceSpec) { s.ExternalTrafficPolicy = "Local" }),
			texts{"healthCheckNodePort: Required value"}},
		{"local", also(lb,
			func(s *corev1.ServiceSpec) { s.ExternalTrafficPolicy, s.HealthCheckNodePort = "Local", 30000 }), nil},
		{"checks nowhere", also(lb,
			func(s *corev1.ServiceSpec) { s.ExternalTrafficPolicy, s.HealthCheckNodePort = "Local", 65536 }),
			texts{"healthCheckNodePort: Invalid value: 65536: must be between 1 and 65535, inclusive"}},
		{"checks of a cluster", also(lb, func(s *corev1.ServiceSpec) { s.HealthCheckNodePort = 30000 }), texts{
			"healthCheckNodePort: Invalid value: 30000: may only be set when `type` is 'LoadBalancer' and " +
				"`externalTrafficPolicy` is 'Local'"}},
		{"no internal policy", spec(func(s *corev1.ServiceSpec) { s.InternalTrafficPolicy = nil }),
			texts{"internalTrafficPolicy: Required value"}},
		{"another internal policy",
			spec(func(s *corev1.ServiceSpec) { s.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicy("A")) }),
			texts{`internalTrafficPolicy: Unsupported value: "A": supported values: "Cluster", "Local"`}},
		{"distribution", spec(func(s *corev1.ServiceSpec) { s.TrafficDistribution = new("PreferSameNode") }), nil},
		{
			"another distribution",
			spec(func(s *corev1.ServiceSpec) { s.TrafficDistribution = new("Near") }),
			texts{
				`trafficDistribution: Unsupported value: "Near": supported values: "PreferClose", "PreferSameZone", "PreferSameNode"`,
			},
		},
		{"node port of a cluster IP", spec(func(s *corev1.ServiceSpec) { s.Ports[0].NodePort = 30000 }),
			texts{"ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"}},
	})
}

func TestServicePorts(t *testing.T) {
	type object = *corev1.Service
	with := func(list ...corev1.ServicePort) func(object) {
		return func(s object) {
			typed(corev1.ServiceTypeNodePort)(s)
			s.Spec.Ports = list
			DefaultService(s)
		}
	}
	type port = corev1.ServicePort
	checkRules(t, "spec.ports", validService, ValidateService, []ruleCase[object]{
		{"two", with(port{Port: 1, Name: "a"}, port{Port: 65535, Name: "b"}), nil},
		{"two without names", with(port{Port: 1}, port{Port: 2}), texts{"[0].name: Required value",
			"[1].name: Required value"}},
		{"one name", with(port{Port: 1, Name: "a"}, port{Port: 2, Name: "a"}), texts{`[1].name: Duplicate value: "a"`}},
		{"bad name", with(port{Port: 1, Name: "A"}),
			texts{`[0].name: Invalid value: "A": a lowercase RFC 1123 label must…`}},
		{"no number", with(port{TargetPort: intstr.FromInt32(1)}),
			texts{"[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"}},
		{"another protocol", with(port{Port: 1, Protocol: "HTTP"}),
			texts{`[0].protocol: Unsupported value: "HTTP": supported values: "SCTP", "TCP", "UDP"`}},
		{"target", with(port{Port: 1, TargetPort: intstr.FromString("http")}), nil},
		{"target of a bad name", with(port{Port: 1, TargetPort: intstr.FromString("a--b")}),
			texts{`[0].targetPort: Invalid value: "a--b": must not contain consecutive hyphens`}},
		{"target of a bad number", with(port{Port: 1, TargetPort: intstr.FromInt32(-1)}),
			texts{"[0].targetPort: Invalid value: -1: must be between 1 and 65535, inclusive"}},
		{"protocol of the application", with(port{Port: 1, AppProtocol: new("a b")}),
			texts{`[0].appProtocol: Invalid value: "a b": name part must consist of…`}},
		{"one number", with(port{Port: 1, Name: "a"}, port{Port: 1, Name: "b", Protocol: "UDP"}), nil},
		{"one number and protocol", with(port{Port: 1, Name: "a"}, port{Port: 1, Name: "b"}),
			texts{`[1]: Duplicate value: {"Name":"",…`}},
		{"one node port", with(port{Port: 1, Name: "a", NodePort: 30000}, port{Port: 2, Name: "b", NodePort: 30000}),
			texts{"[1].nodePort: Duplicate value: 30000"}},
		{"one node port of two protocols", with(port{Port: 1, Name: "a", NodePort: 30000},
			port{Port: 2, Name: "b", NodePort: 30000, Protocol: "UDP"}), nil},
	})
}

func TestServiceAddresses(t *testing.T) {
	type object = *corev1.Service
	with := func(one string, list texts, families ...corev1.IPFamily) func(object) {
		return func(s object) { s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.IPFamilies = one, list, families }
	}
	const more = "may specify no more than one IP for each IP family"
	checkRules(t, "spec.", validService, ValidateService, []ruleCase[object]{
		{"none", with("", nil), nil},
		{"dual stack", with("10.0.0.1", texts{"10.0.0.1", "fd00::1"}, "IPv4", "IPv6"), nil},
		{"the list alone", with("", texts{"10.0.0.1"}),
			texts{"clusterIPs: Invalid value: [\"10.0.0.1\"]: must be empty when `clusterIP` is not specified"}},
		{"the first alone", with("10.0.0.1", nil), texts{"clusterIPs: Required value"}},
		{"another first", with("10.0.0.2", texts{"10.0.0.1"}),
			texts{"clusterIPs: Invalid value: [\"10.0.0.1\"]: first value must match `clusterIP`"}},
		{"bad", with("x", texts{"x"}), texts{`clusterIPs[0]: Invalid value: "x": must be a valid IP address…`}},
		{"two of a family", with("10.0.0.1", texts{"10.0.0.1", "10.0.0.2"}),
			texts{`clusterIPs: Invalid value: ["10.0.0.1","10.0.0.2"]: ` + more}},
		{"three", with("10.0.0.1", texts{"10.0.0.1", "fd00::1", "fd00::2"}), texts{
			`clusterIPs: Invalid value: ["10.0.0.1","fd00::1","fd00::2"]: may only hold up to 2 values`}},
		{"None and more", with("None", texts{"None", "10.0.0.1"}),
			texts{`clusterIPs: Invalid value: ["None","10.0.0.1"]: 'None' must be the first and only value`}},
		{"None second", with("10.0.0.1", texts{"10.0.0.1", "None"}),
			texts{`clusterIPs[1]: Invalid value: "None": must be a valid IP address…`}},
		{"other family", with("10.0.0.1", texts{"10.0.0.1"}, "IPv6"), texts{
			"clusterIPs[0]: Invalid value: \"10.0.0.1\": expected an IPv6 value as indicated by `ipFamilies[0]`"}},
		{"other second family", with("10.0.0.1", texts{"10.0.0.1", "fd00::1"}, "IPv4", "IPv4"),
			texts{`ipFamilies[1]: Duplicate value: "IPv4"`,
				"clusterIPs[1]: Invalid value: \"fd00::1\": expected an IPv4 value as indicated by `ipFamilies[1]`"}},
		{"unknown family", with("", nil, "IPv5"),
			texts{`ipFamilies[0]: Unsupported value: "IPv5": supported values: "IPv4", "IPv6"`}},
		{"policy", func(s object) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicy("A")) }, texts{
			`ipFamilyPolicy: Unsupported value: "A": supported values: "PreferDualStack", "RequireDualStack", "SingleStack"`}},
	})
}

func TestServiceUpdates(t *testing.T) {
	type object = *corev1.Service
	dual := func(s object) {
		s.Spec.ClusterIPs, s.Spec.IPFamilies = texts{"10.0.0.1", "fd00::1"}, []corev1.IPFamily{"IPv4", "IPv6"}
		s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
	}
	local := func(s object) {
		typed(corev1.ServiceTypeLoadBalancer)(s)
		s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort, s.Spec.LoadBalancerClass = "Local", 30000, new("a")
	}
	const kept = "may not change once set"
	checkChanges(t, "spec.", validService, ValidateServiceUpdate, []changeCase[object]{
		{"port", nil, func(s object) { s.Spec.Ports[0].Port = 81 }, nil},
		{"address", nil, func(s object) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.0.0.2", texts{"10.0.0.2"} },
			texts{`clusterIPs[0]: Invalid value: ["10.0.0.2"]: ` + kept}},
		{"no address", nil, func(s object) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil },
			texts{"clusterIPs[0]: Invalid value: null: primary clusterIP can not be unset"}},
		{"second address", nil, dual, nil},
		{"no second address", dual, func(s object) {
			s.Spec.ClusterIPs, s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = s.Spec.ClusterIPs[:1], s.Spec.IPFamilies[:1],
				new(corev1.IPFamilyPolicySingleStack)
		}, nil},
		{
			"no second address, but its policy",
			dual,
			func(s object) { s.Spec.ClusterIPs = s.Spec.ClusterIPs[:1] },
			texts{
				`ipFamilyPolicy: Invalid value: "RequireDualStack": must be set to 'SingleStack' when releasing the secondary clusterIP`,
			},
		},
		{
			"no second family, but its policy",
			dual,
			func(s object) { s.Spec.IPFamilies = s.Spec.IPFamilies[:1] },
			texts{
				`ipFamilyPolicy: Invalid value: "RequireDualStack": must be set to 'SingleStack' when releasing the secondary ipFamily`,
			},
		},
		{"external name", nil, typed(corev1.ServiceTypeExternalName), nil},
		{"from an external name", typed(corev1.ServiceTypeExternalName), func(s object) { *s = *validService() }, nil},
		{"class", local, func(s object) { s.Spec.LoadBalancerClass = new("b") },
			texts{`loadBalancerClass: Invalid value: "b": ` + kept}},
		{"no class", local, func(s object) { s.Spec.LoadBalancerClass = nil },
			texts{"loadBalancerClass: Invalid value: null: " + kept}},
		{"port of checks", local, func(s object) { s.Spec.HealthCheckNodePort = 30001 },
			texts{"healthCheckNodePort: Forbidden: field is immutable"}},
		{"address written with zeros", func(s object) {
			s.Spec.ExternalIPs,
				s.Spec.ExternalTrafficPolicy = texts{"010.0.0.1"}, "Cluster"
		},
			func(s object) { s.Spec.ExternalIPs = texts{"010.0.0.1", "010.0.0.2"} },
			texts{`externalIPs[1]: Invalid value: "010.0.0.2": must not have leading 0s`}},
	})
}

func TestServiceStatuses(t *testing.T) {
	type ingress = corev1.LoadBalancerIngress
	with := func(list ...ingress) func(s *corev1.Service) {
		return func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = list }
	}
	vip := new(corev1.LoadBalancerIPModeVIP)
	checkChanges(t, "status.loadBalancer.ingress", func() *corev1.Service {
		s := validService()
		typed(corev1.ServiceTypeLoadBalancer)(s)
		return s
	}, ValidateServiceStatus, []changeCase[*corev1.Service]{
		{"address", nil, with(ingress{IP: "1.2.3.4", IPMode: vip}, ingress{Hostname: "a.b"}), nil},
		{"bad address", nil, with(ingress{IP: "x", IPMode: vip}),
			texts{`[0].ip: Invalid value: "x": must be a valid IP address…`}},
		{"zeros", nil, with(ingress{IP: "01.2.3.4", IPMode: vip}),
			texts{`[0].ip: Invalid value: "01.2.3.4": must not have leading 0s`}},
		{"zeros that were there", with(ingress{IP: "01.2.3.4", IPMode: vip}),
			with(ingress{Hostname: "a"}, ingress{IP: "01.2.3.4", IPMode: vip}), nil},
		{"no mode", nil, with(ingress{IP: "1.2.3.4"}),
			texts{"[0].ipMode: Required value: must be specified when `ip` is set"}},
		{"mode of a name", nil, with(ingress{Hostname: "a", IPMode: vip}),
			texts{"[0].ipMode: Forbidden: may not be specified when `ip` is not set"}},
		{"another mode", nil, with(ingress{IP: "1.2.3.4", IPMode: new(corev1.LoadBalancerIPMode("A"))}),
			texts{`[0].ipMode: Unsupported value: "A": supported values: "Proxy", "VIP"`}},
		{"bad name", nil, with(ingress{Hostname: "A"}),
			texts{`[0].hostname: Invalid value: "A": a lowercase RFC 1123 subdomain must…`}},
		{"address for a name", nil, with(ingress{Hostname: "1.2.3.4"}),
			texts{`[0].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address`}},
		{"no load balancer", nil, func(s *corev1.Service) {
			s.Spec.Type = "ClusterIP"
			with(ingress{Hostname: "a"})(s)
		}, texts{": Forbidden: may only be used when `spec.type` is 'LoadBalancer'"}},
	})
}

func TestServiceWarnings(t *testing.T) {
	headless := func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "None", texts{"None"} }
	const canonical = `IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")`
	const deprecated = "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
	for name, c := range map[string]struct {
		change func(s *corev1.ServiceSpec)
		want   texts
	}{
		"nothing": {func(*corev1.ServiceSpec) {}, nil},
		"headless": {func(s *corev1.ServiceSpec) {
			headless(s)
			s.LoadBalancerIP, s.ExternalIPs, s.SessionAffinity = "1.2.3.4", texts{"1.2.3.4"}, "ClientIP"
		}, texts{"spec.loadBalancerIP is ignored for headless services",
			"spec.externalIPs is ignored for headless services",
			"spec.SessionAffinity is ignored for headless services"}},
		"addresses": {func(s *corev1.ServiceSpec) {
			s.ClusterIPs, s.ExternalIPs, s.LoadBalancerIP = texts{"10.0.0.1", "FD00::1"}, texts{"FD00::1"}, "FD00::1"
		}, texts{"spec.clusterIPs[1]: " + canonical, "spec.externalIPs[0]: " + canonical, deprecated,
			"spec.loadBalancerIP: " + canonical}},
		"external addresses": {func(s *corev1.ServiceSpec) { s.ExternalIPs = texts{"1.2.3.4"} }, texts{deprecated}},
		"of a name": {func(s *corev1.ServiceSpec) { s.Type, s.ExternalIPs = "ExternalName", texts{"1.2.3.4"} },
			texts{`spec.externalIPs is ignored when spec.type is "ExternalName"`}},
		"name": {func(s *corev1.ServiceSpec) { s.ExternalName = "a" },
			texts{`spec.externalName is ignored when spec.type is not "ExternalName"`}},
		"distribution": {func(s *corev1.ServiceSpec) { s.TrafficDistribution = new("PreferClose") },
			texts{`spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"`}},
	} {
		s := validService()
		c.change(&s.Spec)
		t.Run(name, func(t *testing.T) { sameTexts(t, ServiceWarnings(s, nil), c.want) })
	}
	s := validService()
	s.Annotations = map[string]string{corev1.DeprecatedAnnotationTopologyAwareHints: "auto"}
	sameTexts(t, ServiceWarnings(s, nil),
		texts{"annotation service.kubernetes.io/topology-aware-hints is deprecated, please use " +
			"service.kubernetes.io/topology-mode instead"})
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "a"}, {IP: "FD00::1"}}
	sameTexts(t, ServiceStatusWarnings(s, nil), texts{"status.loadBalancer.ingress[1]: " + canonical})
}

// TestServicesThatChangeTheirType: what the new type has no use for goes, unless the client changed it just now.
func TestServicesThatChangeTheirType(t *testing.T) {
	old := validService()
	typed(corev1.ServiceTypeLoadBalancer)(old)
	old.Spec.Ports[0].NodePort, old.Spec.ExternalTrafficPolicy, old.Spec.HealthCheckNodePort = 30000, "Local", 30001
	old.Spec.LoadBalancerClass = new("a")
	old.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "1.2.3.4"}}
	s := old.DeepCopy()
	s.Spec.Type = "ClusterIP"
	PrepareServiceUpdate(s, old)
	if s.Spec.Ports[0].NodePort != 0 || s.Spec.ExternalTrafficPolicy != "" || s.Spec.HealthCheckNodePort != 0 ||
		s.Spec.LoadBalancerClass != nil ||
		s.Spec.AllocateLoadBalancerNodePorts != nil || len(s.Status.LoadBalancer.Ingress) > 0 || s.Spec.ClusterIP == "" {
		t.Errorf("cluster IP: %+v", s)
	}
	s = old.DeepCopy()
	s.Spec.Type = "ClusterIP"
	s.Spec.Ports[0].NodePort, s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort,
		s.Spec.LoadBalancerClass = 30002, "Cluster", 30003, new("b")
	PrepareServiceUpdate(s, old)
	if s.Spec.Ports[0].NodePort != 30002 || s.Spec.ExternalTrafficPolicy != "Cluster" ||
		s.Spec.HealthCheckNodePort != 30003 || *s.Spec.LoadBalancerClass != "b" {
		t.Errorf("what the client changed: %+v", s.Spec)
	}
	s = old.DeepCopy()
	s.Spec.Type = "ExternalName"
	PrepareServiceUpdate(s, old)
	if s.Spec.ClusterIP != "" || s.Spec.ClusterIPs != nil || s.Spec.IPFamilies != nil || s.Spec.IPFamilyPolicy != nil {
		t.Errorf("external name: %+v", s.Spec)
	}
	filled := old.DeepCopy()
	filled.Spec.ClusterIP, filled.Spec.ClusterIPs, filled.Spec.Ports[0].NodePort, filled.Spec.HealthCheckNodePort = "",
		nil, 0, 0
	if FillAllocated(filled, old); filled.Spec.ClusterIP != "10.0.0.1" || len(filled.Spec.ClusterIPs) != 1 ||
		filled.Spec.Ports[0].NodePort != 30000 || filled.Spec.HealthCheckNodePort != 30001 {
		t.Errorf("what an update leaves out: %+v", filled.Spec)
	}
	again := old.DeepCopy()
	if DefaultService(again); again.Spec.Ports[0].TargetPort != intstr.FromInt32(80) ||
		!*again.Spec.AllocateLoadBalancerNodePorts {
		t.Errorf("defaults: %+v", again.Spec)
	}
}
