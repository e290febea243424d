package addons

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	registration "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// MetricsServer names the Service of the metrics server, in kube-system.
const MetricsServer = "metrics-server"

// MetricsServerHost is the name that the API server expects in the serving certificate of the metrics server.
const MetricsServerHost = MetricsServer + "." + metav1.NamespaceSystem + ".svc"

// MetricsAPIService is the name of what registers metrics.k8s.io/v1beta1.
const MetricsAPIService = "v1beta1." + v1beta1.GroupName

// MetricsServerOptions tell where the metrics server is.
type MetricsServerOptions struct {
	// User is its identity.
	User string
	// Addresses are those at which the API server reaches it, one of each family. A name, as which only a server on the
	// API server's own machine is known, stands alone.
	Addresses []string
	Port      int32
	// Authority (PEM) signed its serving certificate.
	Authority []byte
}

// MetricsServerObjects are the permissions of the metrics server, which are upstream's, and the Service by which the
// API server finds it.
func MetricsServerObjects(o MetricsServerOptions) []runtime.Object {
	user := rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: o.User}
	objects := role("system:metrics-server", user,
		rule("", []string{"nodes/metrics"}, "get"),
		rule("", []string{"nodes", "pods"}, "get", "list", "watch"))
	reader := map[string]string{}
	for _, to := range []string{"admin", "edit", "view"} {
		reader["rbac.authorization.k8s.io/aggregate-to-"+to] = "true"
	}
	objects = append(objects,
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "system:aggregated-metrics-reader", Labels: reader},
			Rules: []rbacv1.PolicyRule{
				rule(v1beta1.GroupName, []string{"pods", "nodes"}, "get", "list", "watch"),
			},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "metrics-server:system:auth-delegator"},
			Subjects:   []rbacv1.Subject{user},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:auth-delegator"},
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "metrics-server-auth-reader"},
			Subjects:   []rbacv1.Subject{user},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role",
				Name: "extension-apiserver-authentication-reader"},
		})
	return append(objects, o.service()...)
}

// servicePort is that of the Service, with its name.
const servicePort, portName = 443, "https"

// service leads to the addresses. A name, or an address of the loopback, which no EndpointSlice may have, is the
// external name of the Service.
func (o *MetricsServerOptions) service() []runtime.Object {
	meta := metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: MetricsServer,
		Labels: map[string]string{"k8s-app": MetricsServer}}
	if o.external() {
		return []runtime.Object{&v1.Service{ObjectMeta: meta,
			Spec: v1.ServiceSpec{Type: v1.ServiceTypeExternalName, ExternalName: o.Addresses[0]}}}
	}
	name, port := portName, o.Port
	policy := v1.IPFamilyPolicyPreferDualStack
	objects := []runtime.Object{&v1.Service{ObjectMeta: meta, Spec: v1.ServiceSpec{
		IPFamilyPolicy: &policy,
		Ports: []v1.ServicePort{{Name: name, Port: servicePort, Protocol: v1.ProtocolTCP,
			TargetPort: intstr.FromInt32(port)}},
	}}}
	for _, text := range o.Addresses {
		address, err := netip.ParseAddr(text)
		if err != nil {
			continue // it is external
		}
		family := discoveryv1.AddressTypeIPv4
		if address.Is6() {
			family = discoveryv1.AddressTypeIPv6
		}
		slice := meta
		slice.Name = fmt.Sprintf("%s-%s", MetricsServer, map[discoveryv1.AddressType]string{
			discoveryv1.AddressTypeIPv4: "ipv4", discoveryv1.AddressTypeIPv6: "ipv6"}[family])
		slice.Labels = map[string]string{discoveryv1.LabelServiceName: MetricsServer,
			discoveryv1.LabelManagedBy: "quintet.dev"}
		protocol := v1.ProtocolTCP
		objects = append(objects, &discoveryv1.EndpointSlice{
			ObjectMeta: slice, AddressType: family,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{text}}},
			Ports:     []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
		})
	}
	return objects
}

func (o *MetricsServerOptions) external() bool {
	address, err := netip.ParseAddr(o.Addresses[0])
	return err != nil || address.IsLoopback()
}

// RegisterMetrics has the API server pass requests for metrics.k8s.io/v1beta1 on. It keeps what is registered.
func RegisterMetrics(ctx context.Context, client registration.APIServicesGetter, o MetricsServerOptions) error {
	port := int32(servicePort)
	if o.external() {
		port = o.Port // a Service that is a name has none of its own
	}
	_, err := client.APIServices().Create(ctx, &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: MetricsAPIService, Labels: map[string]string{"k8s-app": MetricsServer}},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: v1beta1.GroupName, Version: "v1beta1", GroupPriorityMinimum: 100, VersionPriority: 100,
			CABundle: o.Authority,
			Service: &apiregistrationv1.ServiceReference{Namespace: metav1.NamespaceSystem, Name: MetricsServer,
				Port: &port},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// ForgetMetrics removes the registration and the Service of a metrics server that MetricsServerObjects and
// RegisterMetrics led to, for one at other addresses. A Service with a selector is a deployed server's, and all stays.
func ForgetMetrics(ctx context.Context, client kubernetes.Interface, apis registration.APIServicesGetter) error {
	services := client.CoreV1().Services(metav1.NamespaceSystem)
	service, err := services.Get(ctx, MetricsServer, metav1.GetOptions{})
	if err != nil {
		return ignoreNotFound(err)
	}
	if len(service.Spec.Selector) > 0 {
		return nil
	}
	slices := client.DiscoveryV1().EndpointSlices(metav1.NamespaceSystem)
	return errors.Join(
		ignoreNotFound(apis.APIServices().Delete(ctx, MetricsAPIService, metav1.DeleteOptions{})),
		ignoreNotFound(services.Delete(ctx, MetricsServer, metav1.DeleteOptions{})),
		slices.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{
			LabelSelector: discoveryv1.LabelServiceName + "=" + MetricsServer}))
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
