package core

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNodes(t *testing.T) {
	type object = *corev1.Node
	taints := func(list ...corev1.Taint) func(object) { return func(n object) { n.Spec.Taints = list } }
	cidrs := func(list ...string) func(object) { return func(n object) { n.Spec.PodCIDRs = list } }
	features := func(list ...string) func(object) { return func(n object) { n.Status.DeclaredFeatures = list } }
	note := func(key, text string) func(object) {
		return func(n object) { n.Annotations = map[string]string{key: text} }
	}
	const avoid, at = corev1.PreferAvoidPodsAnnotationKey,
		"metadata.annotations.scheduler.alpha.kubernetes.io/preferAvoidPods[0].PodSignature"
	checkRules(t, "", func() object { return &corev1.Node{} }, ValidateNode, []ruleCase[object]{
		{"minimal", func(object) {}, nil},
		{"taints", taints(corev1.Taint{Key: "a", Effect: "NoSchedule"},
			corev1.Taint{Key: "a", Effect: "NoExecute", Value: "b"}), nil},
		{"bad taint", taints(corev1.Taint{Key: "a b", Value: "c d"}),
			texts{`metadata.taints[0].key: Invalid value: "a b": name part must consist of…`,
				`metadata.taints[0].value: Invalid value: "c d": a valid label must be…`,
				"metadata.taints[0].effect: Required value"}},
		{"unknown effect", taints(corev1.Taint{Key: "a", Effect: "No"}),
			texts{`metadata.taints[0].effect: Unsupported value: "No"…`}},
		{
			"taint twice",
			taints(corev1.Taint{Key: "a", Effect: "NoExecute"},
				corev1.Taint{Key: "a", Effect: "NoExecute", Value: "b"}),
			texts{
				`metadata.taints[1]: Duplicate value: {"Key":"a","Value":"b","Effect":"NoExecute","TimeAdded":null}: taints must be unique by key and effect pair`,
			},
		},
		{
			"annotated taints",
			note(corev1.TaintsAnnotationKey, `[{"key":"a b","effect":"NoExecute"}]`),
			texts{
				`metadata.annotations.scheduler.alpha.kubernetes.io/taints[0].key: Invalid value: "a b": name part must consist of…`,
			},
		},
		{"annotated nonsense", note(corev1.TaintsAnnotationKey, "x"),
			texts{`metadata.annotations: Invalid value: "scheduler.alpha.kubernetes.io/taints": invalid character…`}},
		{"avoided pods", note(avoid, `{"preferAvoidPods":[{"podSignature":{"podController":{"controller":true}}}]}`),
			nil},
		{"avoided pods of nothing", note(avoid, `{"preferAvoidPods":[{}]}`), texts{at + ": Required value"}},
		{"avoided pods of no controller", note(avoid, `{"preferAvoidPods":[{"podSignature":{"podController":{}}}]}`),
			texts{at + ".PodController.Controller: Invalid value: false: must point to a controller"}},
		{"capacity", func(n object) {
			n.Status.Capacity, n.Status.Allocatable = amounts("cpu", "-1"), amounts("pods", "1500m")
		}, texts{
			`status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0`,
			`status.allocatable.pods: Invalid value: "1500m": must be an integer`}},
		{"swap", func(n object) { n.Status.NodeInfo.Swap = &corev1.NodeSwapStatus{Capacity: new(int64(0))} },
			texts{"metadata.nodeSwapStatus.capacity: Invalid value: 0: must be greater than zero"}},
		{"features", features("A", "A/b", "B2"), nil},
		{"features in another order", features("B", "A"),
			texts{`status.declaredFeatures[1]: Invalid value: "A": list must be sorted alphabetically`}},
		{"feature twice", features("A", "A"), texts{`status.declaredFeatures[1]: Duplicate value: "A"`}},
		{
			"bad feature",
			features("a"),
			texts{
				`status.declaredFeatures[0]: Invalid value: "a": invalid feature name "a": must start with an UpperCamelCase segment…`,
			},
		},
		{"dual stack", cidrs("10.0.0.0/24", "fd00::/64"), nil},
		{"bad CIDR", cidrs("10.0.0.0"),
			texts{`spec.podCIDRs[0]: Invalid value: "10.0.0.0": must be a valid CIDR value…`}},
		{
			"two of a family",
			cidrs("10.0.0.0/24", "10.0.1.0/24"),
			texts{
				`spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: may specify no more than one CIDR for each IP family`,
			},
		},
	})
	const kept = `spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid`
	checkChanges(t, "", func() object { return &corev1.Node{} }, ValidateNodeChange, []changeCase[object]{
		{"CIDR", nil, cidrs("10.0.0.0/24"), nil},
		{"another CIDR", cidrs("10.0.0.0/24"), cidrs("10.0.1.0/24"), texts{kept}},
		{"one more CIDR", cidrs("10.0.0.0/24"), cidrs("10.0.0.0/24", "fd00::/64"), texts{kept}},
		{"provider", nil, func(n object) { n.Spec.ProviderID = "a" }, nil},
		{"another provider", func(n object) { n.Spec.ProviderID = "a" }, func(n object) { n.Spec.ProviderID = "" },
			texts{`spec.providerID: Forbidden: node updates may not change providerID except from "" to valid`}},
		{"id", nil, func(n object) { n.Spec.DoNotUseExternalID = "a" },
			texts{"spec.externalID: Forbidden: may not be updated"}},
		{"address twice", nil, func(n object) {
			n.Status.Addresses = []corev1.NodeAddress{{Type: "InternalIP", Address: "a"},
				{Type: "ExternalIP", Address: "a"}, {Type: "InternalIP", Address: "a"}}
		}, texts{`status.addresses[2]: Duplicate value: {"Type":"InternalIP","Address":"a"}`}},
		{"taint", nil, taints(corev1.Taint{Key: "a"}), texts{"metadata.taints[0].effect: Required value"}},
	})
}

func TestNodePreparation(t *testing.T) {
	source, config := &corev1.NodeConfigSource{}, &corev1.NodeConfigStatus{}
	of := func() *corev1.Node {
		return &corev1.Node{Spec: corev1.NodeSpec{ConfigSource: source, Unschedulable: true},
			Status: corev1.NodeStatus{Config: config, Phase: "Running"}}
	}
	n := of()
	if PrepareNodeCreate(n); n.Spec.ConfigSource != nil || n.Status.Config != nil || n.Status.Phase != "Running" {
		t.Errorf("create: %+v", n)
	}
	n = of()
	if PrepareNodeUpdate(n,
		&corev1.Node{}); n.Spec.ConfigSource != nil || n.Status.Phase != "" || !n.Spec.Unschedulable {
		t.Errorf("update: %+v", n)
	}
	n = of()
	if PrepareNodeStatus(n,
		&corev1.Node{}); n.Status.Config != nil || n.Status.Phase != "Running" || n.Spec.Unschedulable {
		t.Errorf("status: %+v", n)
	}
	n = of()
	if PrepareNodeUpdate(n, of()); n.Spec.ConfigSource == nil {
		t.Error("a source that was there is gone")
	}
	sameTexts(t,
		NodeWarnings(&corev1.Node{Spec: corev1.NodeSpec{ConfigSource: source, DoNotUseExternalID: "a",
			PodCIDRs: texts{"FD00::/64"}}}, nil), texts{
			"spec.configSource: the feature is removed",
			"spec.externalID: this field is deprecated, and is unused by Kubernetes",
			"spec.podCIDRs[0]: IPv6 …"})
	for _, c := range []struct {
		one, want  string
		list, then texts
	}{{"", "", nil, nil}, {"a", "a", nil, texts{"a"}}, {"", "a", texts{"a", "b"}, texts{"a", "b"}},
		{"c", "c", texts{"a", "b"}, texts{"c"}}, {"a", "a", texts{"a", "b"}, texts{"a", "b"}}} {
		n := &corev1.Node{Spec: corev1.NodeSpec{PodCIDR: c.one, PodCIDRs: c.list}}
		DefaultNode(n)
		sameTexts(t, append(texts{n.Spec.PodCIDR}, n.Spec.PodCIDRs...), append(texts{c.want}, c.then...))
	}
	sized := &corev1.Node{Status: corev1.NodeStatus{Capacity: amounts("cpu", "1")}}
	if DefaultNode(sized); len(sized.Status.Allocatable) != 1 {
		t.Errorf("allocatable: %v", sized.Status.Allocatable)
	}
}

func TestNamespaces(t *testing.T) {
	type object = *corev1.Namespace
	with := func(names ...corev1.FinalizerName) func(object) { return func(n object) { n.Spec.Finalizers = names } }
	const unknown = "name is neither a standard finalizer name nor is it fully qualified"
	checkRules(t, "spec.finalizers: ", func() object { return &corev1.Namespace{} }, ValidateNamespace,
		[]ruleCase[object]{
			{"known", with("kubernetes", "orphan", "foregroundDeletion", "a.b/c"), nil},
			{"unknown", with("a"), texts{`Invalid value: "a": ` + unknown}},
			{"bad", with("a b"), texts{`Invalid value: "a b": name part must consist of…`,
				`Invalid value: "a b": ` + unknown}},
		})
	checkChanges(t, "spec.finalizers", func() object { return &corev1.Namespace{} }, ValidateNamespaceFinalize,
		[]changeCase[object]{
			{"none", with("kubernetes"), with(), nil}, {"second", nil, with("kubernetes", "a"),
				texts{`[1]: Invalid value: "a": ` + unknown}}})
	phase := func(name corev1.NamespacePhase, deleted bool) func(object) {
		return func(n object) {
			if n.Status.Phase = name; deleted {
				n.DeletionTimestamp = &metav1.Time{Time: now}
			}
		}
	}
	checkChanges(t, "status.Phase: ", func() object { return &corev1.Namespace{} }, ValidateNamespaceStatusUpdate,
		[]changeCase[object]{
			{"active", nil, phase("Active", false), nil},
			{"terminating", nil, phase("Terminating", true), nil},
			{"too early", nil, phase("Terminating", false),
				texts{"Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"}},
			{"too late", nil, phase("Active", true),
				texts{"Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty"}},
		})
	n := &corev1.Namespace{}
	n.Name = "n"
	DefaultNamespace(n)
	sameRow(t, NamespaceColumns(), NamespaceRow(n), "n", "Active", "<unknown>")
}

func TestEndpoints(t *testing.T) {
	type object = *corev1.Endpoints
	with := func(s corev1.EndpointSubset) func(object) {
		return func(e object) { e.Subsets = []corev1.EndpointSubset{s} }
	}
	one := []corev1.EndpointAddress{{IP: "10.0.0.1"}}
	ports := func(list ...corev1.EndpointPort) func(object) {
		return with(corev1.EndpointSubset{Addresses: one, Ports: list})
	}
	none := func() object { return &corev1.Endpoints{} }
	checkRules(t, "subsets[0]", none, ValidateEndpoints, []ruleCase[object]{
		{"none", func(object) {}, nil},
		{"addresses",
			with(corev1.EndpointSubset{NotReadyAddresses: []corev1.EndpointAddress{{IP: "fd00::1", Hostname: "a",
				NodeName: new("n.b")}}}), nil},
		{"no addresses", with(corev1.EndpointSubset{}),
			texts{": Required value: must specify `addresses` or `notReadyAddresses`"}},
		{"bad address", with(corev1.EndpointSubset{Addresses: []corev1.EndpointAddress{{IP: "x"}}}), texts{
			`.addresses[0].ip: Invalid value: "x": must be a valid IP address…`,
			`.addresses[0].ip: Invalid value: "x": must be a valid IP address`}},
		{"loopback", with(corev1.EndpointSubset{Addresses: []corev1.EndpointAddress{{IP: "127.0.0.1"}}}),
			texts{`.addresses[0].ip: Invalid value: "127.0.0.1": may not be in the loopback range…`}},
		{"names",
			with(corev1.EndpointSubset{NotReadyAddresses: []corev1.EndpointAddress{{IP: "10.0.0.1", Hostname: "A",
				NodeName: new("")}}}), texts{
				`.notReadyAddresses[0].hostname: Invalid value: "A": a lowercase RFC 1123 label…`,
				`.notReadyAddresses[0].nodeName: Invalid value: "": a lowercase RFC 1123 subdomain…`}},
		{"one port", ports(corev1.EndpointPort{Port: 1, Protocol: "TCP"}), nil},
		{"two without names", ports(corev1.EndpointPort{Port: 1, Protocol: "TCP", Name: "a"},
			corev1.EndpointPort{Port: 2, Protocol: "TCP"}), texts{".ports[1].name: Required value"}},
		{"bad port", ports(corev1.EndpointPort{Name: "A", AppProtocol: new("a b")}),
			texts{`.ports[0].name: Invalid value: "A": a lowercase RFC 1123 label…`,
				".ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
				".ports[0].protocol: Required value",
				`.ports[0].appProtocol: Invalid value: "a b": name part must consist of…`}},
	})
	old := none()
	with(corev1.EndpointSubset{})(old)
	same := old.DeepCopy()
	same.Labels = map[string]string{"a": "b"}
	sameTexts(t, errorsBelow("", ValidateEndpointsUpdate(same, old)), nil)
	sameTexts(t, errorsBelow("", ValidateEndpointsUpdate(old, none())),
		texts{"subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"})
	e := none()
	with(corev1.EndpointSubset{Addresses: []corev1.EndpointAddress{{IP: "FD00::1"}},
		Ports: []corev1.EndpointPort{{Port: 1}, {Port: 2}, {Port: 3}, {Port: 4}}})(e)
	if DefaultEndpoints(e); e.Subsets[0].Ports[3].Protocol != "TCP" {
		t.Errorf("ports %+v", e.Subsets[0].Ports)
	}
	e.Name = "e"
	sameRow(t, EndpointsColumns(), EndpointsRow(e), "e", "[FD00::1]:1,[FD00::1]:2,[FD00::1]:3 + 1 more...", "<unknown>")
	e.Subsets[0].Ports = nil
	sameRow(t, EndpointsColumns(), EndpointsRow(e), "e", "FD00::1", "<unknown>")
	sameRow(t, EndpointsColumns(), EndpointsRow(none()), "", "<none>", "<unknown>")
	sameTexts(t, EndpointsWarnings(e, nil),
		texts{`subsets[0].addresses[0].ip: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")`})
	e.Labels = map[string]string{"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
	sameTexts(t, EndpointsWarnings(e, nil), nil)
}
