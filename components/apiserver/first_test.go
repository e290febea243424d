package apiserver_test

import (
	"net"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/components/apiserver/options"
)

// TestLoopbackIsNoEndpoint: as with upstream, a server that only this machine reaches (envtest's) has its Service, but
// validation refuses endpoints on the loopback.
func TestLoopbackIsNoEndpoint(t *testing.T) {
	client := start(t, func(c *options.Config) { c.AdvertiseAddress = net.IPv4(127, 0, 0, 1) }).client(t)
	service, err := client.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || service.Spec.ClusterIP != "10.0.0.1" {
		t.Fatalf("got %+v, %v", service.Spec, err)
	}
	cidr := tellingServiceCIDR(t, client) // which is told of after the endpoints
	if len(cidr.Spec.CIDRs) != 1 || cidr.Spec.CIDRs[0] != "10.0.0.0/24" {
		t.Errorf("service CIDR: %+v", cidr)
	}
	if e, err := client.CoreV1().Endpoints("default").Get(t.Context(), "kubernetes",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("endpoints %+v, %v", e.Subsets, err)
	}
}

// tellingServiceCIDR is the object of the server's ranges once it says that they can be used: a moment after the server
// is ready.
func tellingServiceCIDR(t *testing.T, client kubernetes.Interface) (cidr *networkingv1.ServiceCIDR) {
	t.Helper()
	eventually(t, "the service CIDR is ready", func() bool {
		var err error
		if cidr, err = client.NetworkingV1().ServiceCIDRs().Get(t.Context(), "kubernetes",
			metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		return meta.IsStatusConditionTrue(cidr.Status.Conditions, "Ready")
	})
	return cidr
}

// TestEndedPodsAreMarked: kubectl hides rows of pods that have ended by their condition.
func TestEndedPodsAreMarked(t *testing.T) {
	client := start(t, withoutServiceAccounts).client(t)
	pods := client.CoreV1().Pods("default")
	made, err := pods.Create(t.Context(), pod("p", "n1"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Status.Phase = corev1.PodSucceeded
	if _, err := pods.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	table := &metav1.Table{}
	err = client.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces/default/pods").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Into(table)
	if err != nil || len(table.Rows) != 1 || len(table.Rows[0].Conditions) != 1 ||
		table.Rows[0].Conditions[0].Type != metav1.RowCompleted || table.Rows[0].Conditions[0].Reason != "Succeeded" {
		t.Errorf("got %+v, %v", table.Rows, err)
	}
}

// TestWhatTheServerMakesIsItsOwn: clients see who manages the objects that a cluster begins with.
func TestWhatTheServerMakesIsItsOwn(t *testing.T) {
	client := start(t, fair).client(t)
	booked := func(obj metav1.Object, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range obj.GetManagedFields() {
			if e.Subresource == "" {
				return e.Manager + " " + string(e.Operation) + " " + e.APIVersion + " " + e.FieldsV1.GetRawString()
			}
		}
		return ""
	}
	get := metav1.GetOptions{}
	namespace, err := client.CoreV1().Namespaces().Get(t.Context(), "default", get)
	if got := booked(namespace,
		err); got != `kube-apiserver Update v1 {"f:metadata":{"f:labels":{".":{},"f:kubernetes.io/metadata.name":{}}}}` {
		t.Errorf("namespace: %s", got)
	}
	role, err := client.RbacV1().ClusterRoles().Get(t.Context(), "cluster-admin", get)
	if got := booked(
		role,
		err,
	); got != `kube-apiserver Update rbac.authorization.k8s.io/v1 {"f:metadata":{"f:annotations":{".":{},"f:rbac.authorization.kubernetes.io/autoupdate":{}},"f:labels":{".":{},"f:kubernetes.io/bootstrapping":{}}},"f:rules":{}}` {
		t.Errorf("role: %s", got)
	}
	level, err := client.FlowcontrolV1().PriorityLevelConfigurations().Get(t.Context(), "exempt", get)
	if got, want := booked(level,
		err), "api-priority-and-fairness-config-producer-v1 Update flowcontrol.apiserver.k8s.io/v1 "; !strings.HasPrefix(got,
		want) {
		t.Errorf("priority level: %s", got)
	}
}
