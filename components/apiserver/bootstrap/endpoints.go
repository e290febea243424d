package bootstrap

import (
	"context"
	"errors"
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
)

// serviceEndpoints are the Endpoints of the Service "kubernetes" and their EndpointSlice: the addresses of the API
// servers that are alive, of which this server keeps its own.
type serviceEndpoints struct {
	writer *objectWriter
	// address and port are where clients in the cluster reach this server; without an address, or without both masters
	// and servers, the Endpoints are not managed.
	address net.IP
	port    int
	masters *Masters // tell which servers are alive
	servers int      // how many there are, where there are no masters
}

// managed tells whether others can use the address, and there is a reconciler of endpoints.
func (e *serviceEndpoints) managed() bool {
	return e.address != nil && (e.masters != nil || e.servers > 0)
}

// ensure writes the addresses of all API servers that are alive, and their port.
func (e *serviceEndpoints) ensure(ctx context.Context) error {
	return e.reconcile(ctx, true)
}

// keep writes the addresses alone: the port is a matter of the start, and may be changed after it.
func (e *serviceEndpoints) keep(ctx context.Context) error { return e.reconcile(ctx, false) }

func (e *serviceEndpoints) reconcile(ctx context.Context, ports bool) error {
	if !e.managed() {
		return nil
	}
	if e.masters == nil {
		return e.ensureCounted(ctx, ports)
	}
	if err := e.masters.renew(ctx, e.address); err != nil {
		return err
	}
	all, err := e.masters.list(ctx)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("no server is alive, though this one has just said so: the endpoints stay as they are")
	}
	return e.write(ctx, all, ports)
}

// removeStale removes the address of this server, which isn't ready yet, from the endpoints, where a former run
// that ended abruptly may have left it. Where no other server is known to be alive they are unchanged: empty endpoints
// would help no client.
func (e *serviceEndpoints) removeStale(ctx context.Context) error {
	if !e.managed() {
		return nil
	}
	others, err := e.others(ctx)
	if err != nil || e.masters != nil && len(others) == 0 {
		return err
	}
	return e.shrink(ctx, others)
}

// leave leaves the servers that go on among the endpoints.
func (e *serviceEndpoints) leave(ctx context.Context) error {
	if !e.managed() {
		return nil
	}
	others, err := e.others(ctx)
	if err != nil {
		return err
	}
	return e.shrink(ctx, others)
}

// others takes this server out of those that are alive, and returns the rest.
func (e *serviceEndpoints) others(ctx context.Context) ([]net.IP, error) {
	if e.masters == nil {
		return e.uncounted(ctx)
	}
	if err := e.masters.remove(ctx, e.address); err != nil {
		return nil, err
	}
	return e.masters.list(ctx)
}

// shrink writes the endpoints, if there are any.
func (e *serviceEndpoints) shrink(ctx context.Context, others []net.IP) error {
	_, err := e.writer.objects.Get(ctx, corev1.Resource("endpoints"), metav1.NamespaceDefault, serviceName)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return e.write(ctx, others, e.masters != nil)
}

func (e *serviceEndpoints) write(ctx context.Context, addresses []net.IP, ports bool) error {
	// which the API takes in none of both kinds, nor what stands beside it
	if slices.ContainsFunc(addresses, net.IP.IsLoopback) {
		klog.FromContext(ctx).V(2).Info("Server advertises a loopback address; endpoints are unchanged", "addresses",
			addresses)
		return nil
	}
	var ips []string
	for _, ip := range addresses {
		ips = append(ips, ip.String())
	}
	slices.Sort(ips) // as texts, as upstream does
	ips = slices.Compact(ips)
	endpoints := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: serviceName}}
	e.mend(endpoints, ips, ports)
	err := e.writer.write(ctx, corev1.Resource("endpoints"), endpoints, func(obj api.Object) bool {
		endpoints = obj.(*corev1.Endpoints)
		return e.mend(endpoints, ips, ports)
	})
	if err != nil {
		return err
	}
	return e.writeSlice(ctx, sliceOf(endpoints))
}

// mend makes current the endpoints of the addresses, and reports whether it changed. Endpoints of another form are
// replaced.
func (e *serviceEndpoints) mend(current *corev1.Endpoints, ips []string, ports bool) (changed bool) {
	if current.Labels[discoveryv1.LabelSkipMirror] != "true" {
		metav1.SetMetaDataLabel(&current.ObjectMeta, discoveryv1.LabelSkipMirror, "true")
		changed = true
	}
	port := []corev1.EndpointPort{{Name: "https", Port: int32(e.port), Protocol: corev1.ProtocolTCP}}
	if len(current.Subsets) != 1 {
		changed = changed || len(current.Subsets) > 0 || len(ips) > 0
		current.Subsets = []corev1.EndpointSubset{{Ports: port}}
	}
	subset := &current.Subsets[0]
	if ports && !slices.Equal(subset.Ports, port) {
		subset.Ports, changed = port, true
	}
	var has []string
	for _, a := range subset.Addresses {
		has = append(has, a.IP)
	}
	slices.Sort(has)
	if !slices.Equal(has, ips) {
		changed = true
		subset.Addresses = nil
		for _, ip := range ips {
			subset.Addresses = append(subset.Addresses, corev1.EndpointAddress{IP: ip})
		}
		subset.NotReadyAddresses = slices.DeleteFunc(subset.NotReadyAddresses,
			func(a corev1.EndpointAddress) bool { return slices.Contains(ips, a.IP) })
	}
	if len(subset.Addresses)+len(subset.NotReadyAddresses) == 0 {
		current.Subsets = nil
	}
	return changed
}

// writeSlice makes the slice exactly what it should be: labels and annotations that were added are removed with the
// next change.
func (e *serviceEndpoints) writeSlice(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	resource := discoveryv1.Resource("endpointslices")
	found, err := objects.As[*discoveryv1.EndpointSlice](
		e.writer.objects.Get(ctx, resource, slice.Namespace, slice.Name))
	if err == nil && found.AddressType != slice.AddressType { // which can't be changed
		err := e.writer.objects.Delete(ctx, resource, slice.Namespace, slice.Name, found.UID)
		if err == nil || apierrors.IsNotFound(err) {
			_, err = e.writer.objects.Create(ctx, resource, slice)
		}
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			return nil // another server was faster; what is still missing in its slice comes when this is done again
		}
		return err
	}
	return e.writer.write(ctx, resource, slice, func(obj api.Object) bool {
		current := obj.(*discoveryv1.EndpointSlice)
		same := equality.Semantic.DeepEqual(current.Endpoints, slice.Endpoints) &&
			equality.Semantic.DeepEqual(current.Ports, slice.Ports) &&
			equality.Semantic.DeepEqual(current.Labels, slice.Labels)
		current.Endpoints, current.Ports, current.Labels = slice.Endpoints, slice.Ports, slice.Labels
		current.Annotations, current.OwnerReferences, current.Finalizers = nil, nil, nil
		return !same
	})
}

// sliceOf says what endpoints of one family say.
func sliceOf(e *corev1.Endpoints) *discoveryv1.EndpointSlice {
	out := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, Name: e.Name, Labels: map[string]string{discoveryv1.LabelServiceName: e.Name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	if len(e.Subsets) == 0 {
		return out
	}
	subset := &e.Subsets[0]
	for _, p := range subset.Ports {
		out.Ports = append(out.Ports, discoveryv1.EndpointPort{Name: &p.Name, Port: &p.Port, Protocol: &p.Protocol})
	}
	addresses := slices.Concat(subset.Addresses, subset.NotReadyAddresses)
	if !slices.ContainsFunc(addresses, func(a corev1.EndpointAddress) bool { return !isIPv6(a) }) {
		out.AddressType = discoveryv1.AddressTypeIPv6
	}
	for i, a := range addresses {
		if isIPv6(a) == (out.AddressType == discoveryv1.AddressTypeIPv6) {
			out.Endpoints = append(out.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{a.IP}, TargetRef: a.TargetRef, NodeName: a.NodeName,
				Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(i < len(subset.Addresses))},
			})
		}
	}
	return out
}

func isIPv6(a corev1.EndpointAddress) bool {
	ip := net.ParseIP(a.IP)
	return ip != nil && ip.To4() == nil
}
