package addons

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	aggregatorfake "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/fake"
)

// TestServiceOfMetrics: addresses stand in a slice of their family; what no slice may have is the name of the Service,
// which is registered with the server's own port then.
func TestServiceOfMetrics(t *testing.T) {
	v4, v6 := discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6
	for name, c := range map[string]struct {
		addresses []string
		external  string
		slices    map[discoveryv1.AddressType]string
		port      int32
	}{
		"one family": {[]string{"192.0.2.1"}, "", map[discoveryv1.AddressType]string{v4: "192.0.2.1"}, 443},
		"two families": {[]string{"192.0.2.1", "2001:db8::1"}, "",
			map[discoveryv1.AddressType]string{v4: "192.0.2.1", v6: "2001:db8::1"}, 443},
		"a name":       {[]string{"localhost"}, "localhost", nil, 10250},
		"the loopback": {[]string{"127.0.0.1"}, "127.0.0.1", nil, 10250},
		"loopback, v6": {[]string{"::1"}, "::1", nil, 10250},
	} {
		o := MetricsServerOptions{User: "metrics", Addresses: c.addresses, Port: 10250}
		slices := map[discoveryv1.AddressType]string{}
		var service *v1.Service
		for _, obj := range MetricsServerObjects(o) {
			switch obj := obj.(type) {
			case *v1.Service:
				service = obj
			case *discoveryv1.EndpointSlice:
				slices[obj.AddressType] = obj.Endpoints[0].Addresses[0]
				if obj.Labels[discoveryv1.LabelServiceName] != MetricsServer || *obj.Ports[0].Port != 10250 {
					t.Errorf("%s: slice %+v", name, obj)
				}
			}
		}
		if service == nil || service.Spec.ExternalName != c.external || len(service.Spec.Selector) > 0 ||
			!maps.Equal(slices, c.slices) {
			t.Errorf("%s: service %+v, slices %v", name, service, slices)
		}
		apis := aggregatorfake.NewClientset().ApiregistrationV1()
		for range 2 { // what is registered stays
			if err := RegisterMetrics(t.Context(), apis, o); err != nil {
				t.Fatal(err)
			}
		}
		registered, err := apis.APIServices().Get(t.Context(), MetricsAPIService, metav1.GetOptions{})
		if err != nil || *registered.Spec.Service.Port != c.port {
			t.Errorf("%s: registered as %+v, %v", name, registered, err)
		}
	}
}

// TestForgetMetrics: what was registered goes, and a server that users deployed stays.
func TestForgetMetrics(t *testing.T) {
	for name, selector := range map[string]map[string]string{"ours": nil, "deployed": {"k8s-app": MetricsServer}} {
		o := MetricsServerOptions{User: "metrics", Addresses: []string{"192.0.2.1"}, Port: 10250}
		client, apis := fake.NewClientset(), aggregatorfake.NewClientset().ApiregistrationV1()
		if err := ForgetMetrics(t.Context(), client, apis); err != nil {
			t.Fatalf("%s: without any: %v", name, err)
		}
		service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: MetricsServer},
			Spec: v1.ServiceSpec{Selector: selector}}
		if err := Apply(t.Context(), client, []runtime.Object{service}); err != nil {
			t.Fatal(err)
		}
		if err := RegisterMetrics(t.Context(), apis, o); err != nil {
			t.Fatal(err)
		}
		if err := ForgetMetrics(t.Context(), client, apis); err != nil {
			t.Fatal(err)
		}
		services, err := client.CoreV1().Services(metav1.NamespaceSystem).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		registered, err := apis.APIServices().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if stays := selector != nil; (len(services.Items) > 0) != stays || (len(registered.Items) > 0) != stays {
			t.Errorf("%s: there are %d services and %d registrations", name, len(services.Items), len(registered.Items))
		}
	}
}

// TestNodeJoining: a token reads one Secret, gets tokens for the accounts of the node's services, and approves itself
// nothing but the certificate of a node.
func TestNodeJoining(t *testing.T) {
	accounts, bindings := map[string]bool{}, map[string]string{}
	var rules []rbacv1.PolicyRule
	for _, obj := range NodeJoining([]string{"kube-proxy", "node-routes"}) {
		access, err := apimeta.Accessor(obj)
		if err != nil {
			t.Fatal(err)
		}
		switch obj := obj.(type) {
		case *v1.ServiceAccount:
			accounts[obj.Name] = true
		case *rbacv1.ClusterRoleBinding:
			bindings[access.GetName()] = obj.RoleRef.Name + " to " + obj.Subjects[0].Kind + " " + obj.Subjects[0].Name
		case *rbacv1.Role:
			rules = append(rules, obj.Rules...)
		}
	}
	if want := map[string]bool{"kube-proxy": true, "node-routes": true}; !maps.Equal(accounts, want) {
		t.Errorf("accounts: %v", accounts)
	}
	const signing, group = "system:certificates.k8s.io:certificatesigningrequests:",
		"system:bootstrappers:kubeadm:default-node-token"
	want := map[string]string{
		"kubeadm:kubelet-bootstrap":                     "system:node-bootstrapper to Group " + group,
		"kubeadm:node-autoapprove-bootstrap":            signing + "nodeclient to Group " + group,
		"kubeadm:node-autoapprove-certificate-rotation": signing + "selfnodeclient to Group system:nodes",
		"kubeadm:get-nodes":                             "kubeadm:get-nodes to Group " + group,
		"kubeadm:node-proxier":                          "system:node-proxier to ServiceAccount kube-proxy",
		"quintet:node-routes":                           "system:node-routes to ServiceAccount node-routes",
	}
	if !maps.Equal(bindings, want) {
		t.Errorf("bindings: %v", bindings)
	}
	for _, r := range rules {
		if len(r.ResourceNames) != 1 || len(r.Verbs) != 1 ||
			r.Verbs[0] != "get" && r.Resources[0] != "serviceaccounts/token" {
			t.Errorf("a token may %+v", r)
		}
	}
	if len(rules) != 3 {
		t.Errorf("rules: %v", rules)
	}
}
