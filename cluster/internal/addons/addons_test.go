package addons

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// What exists is the user's: a second Apply changes nothing.
func TestApplyKeepsWhatExists(t *testing.T) {
	client := fake.NewClientset()
	dns, err := DNS(DNSOptions{Image: "dns:1", Replicas: 2, Domain: "cluster.test", ClusterIPs: []string{"10.96.0.10"}})
	if err != nil {
		t.Fatal(err)
	}
	objects := append(dns,
		KubeProxy(KubeProxyOptions{Image: "proxy:1", Server: "https://api:6443",
			ClusterCIDRs: []string{"10.244.0.0/16"}})...)
	objects = append(objects, DefaultStorageClass("example.com/x"))
	objects = append(objects, CSIDriverObjects(CSIDriverOptions{Driver: "csi.example.com", Image: "driver:1"})...)
	if err := Apply(t.Context(), client, objects); err != nil {
		t.Fatal(err)
	}
	class, err := client.StorageV1().StorageClasses().Get(t.Context(), "standard", metav1.GetOptions{})
	if err != nil || class.Provisioner != "example.com/x" || *class.ReclaimPolicy != "Delete" {
		t.Fatalf("%v, %v", class, err)
	}
	maps := client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	config, err := maps.Get(t.Context(), "coredns", metav1.GetOptions{})
	if err != nil || !strings.Contains(config.Data["Corefile"], "kubernetes cluster.test in-addr.arpa") {
		t.Fatalf("%v, %v", config, err)
	}
	config.Data["Corefile"] = "mine"
	if _, err := maps.Update(t.Context(), config, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := Apply(t.Context(), client, objects); err != nil {
		t.Fatal(err)
	}
	if config, err = maps.Get(t.Context(), "coredns", metav1.GetOptions{}); err != nil ||
		config.Data["Corefile"] != "mine" {
		t.Errorf("%v, %v", config, err)
	}
}

func TestUnknownObjectIsNamed(t *testing.T) {
	err := Apply(t.Context(), fake.NewClientset(), []runtime.Object{&metav1.Status{}})
	if err == nil || !strings.Contains(err.Error(), "Status") {
		t.Error(err)
	}
}

// TestAddressOfAServiceThatExists: the server refuses a Service whose own address is taken, by itself or by another.
func TestAddressOfAServiceThatExists(t *testing.T) {
	service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "dns"},
		Spec: v1.ServiceSpec{ClusterIP: "10.96.0.10"}}
	for name, there := range map[string][]runtime.Object{"itself": {service}, "another": nil} {
		client := fake.NewClientset(there...)
		client.PrependReactor("create", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewInvalid(v1.SchemeGroupVersion.WithKind("Service").GroupKind(), "dns", nil)
		})
		err := Apply(t.Context(), client, []runtime.Object{service.DeepCopy()})
		if (err == nil) != (there != nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
