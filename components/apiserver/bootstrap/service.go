package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds"
)

const (
	serviceName = "kubernetes"
	servicePort = 443
)

// reachable: without an address that others can use, or if nobody is to keep them, the Service has no endpoints.
func (b *Bootstrap) reachable() bool {
	return b.cfg.ServiceIP != nil && b.cfg.AdvertiseAddress != nil && (b.cfg.Masters != nil || b.cfg.Servers > 0)
}

// ensureService makes the Service by which pods find the API server.
func (b *Bootstrap) ensureService(ctx context.Context) error {
	if b.cfg.ServiceIP == nil {
		return nil
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault,
			Name:      serviceName,
			Labels:    map[string]string{"provider": "kubernetes", "component": "apiserver"},
		},
		Spec: corev1.ServiceSpec{
			Type:            corev1.ServiceTypeClusterIP,
			ClusterIP:       b.cfg.ServiceIP.String(),
			SessionAffinity: corev1.ServiceAffinityNone,
			Ports: []corev1.ServicePort{{
				Name: "https", Protocol: corev1.ProtocolTCP, Port: servicePort, TargetPort: intstr.FromInt(b.cfg.SecurePort),
			}},
		},
	}
	if b.cfg.NodePort > 0 {
		service.Spec.Type, service.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, int32(b.cfg.NodePort)
	}
	return b.createMissing(ctx, corev1.Resource("services"), service)
}

// ensureEndpoints writes the addresses of all API servers that are alive.
func (b *Bootstrap) ensureEndpoints(ctx context.Context) error {
	if !b.reachable() {
		return nil
	}
	if b.cfg.Masters == nil {
		return b.ensureCounted(ctx)
	}
	if err := b.cfg.Masters.renew(ctx, b.cfg.AdvertiseAddress); err != nil {
		return err
	}
	all, err := b.cfg.Masters.list(ctx)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("no server is alive, though this one has just said so: the endpoints stay as they are")
	}
	return b.writeEndpoints(ctx, all)
}

func (b *Bootstrap) writeEndpoints(ctx context.Context, addresses []net.IP) error {
	slices.SortFunc(addresses, func(x, y net.IP) int { return bytes.Compare(x.To16(), y.To16()) })
	addresses = slices.CompactFunc(addresses, net.IP.Equal)
	if slices.ContainsFunc(addresses, net.IP.IsLoopback) { // which the API takes in none of both kinds, nor what stands beside it
		klog.FromContext(ctx).V(2).Info("A server advertises its loopback: endpoints stay as they are", "addresses", addresses)
		return nil
	}
	endpoints := b.endpoints(addresses)
	err := b.write(ctx, corev1.Resource("endpoints"), endpoints, func(obj kinds.Object) bool {
		current := obj.(*corev1.Endpoints)
		same := equality.Semantic.DeepEqual(current.Subsets, endpoints.Subsets) && hasLabels(current, endpoints.Labels)
		current.Subsets = endpoints.Subsets
		setLabels(current, endpoints.Labels)
		return !same
	})
	if err != nil {
		return err
	}
	slice := b.slice(addresses)
	return b.write(ctx, discoveryv1.Resource("endpointslices"), slice, func(obj kinds.Object) bool {
		current := obj.(*discoveryv1.EndpointSlice)
		same := equality.Semantic.DeepEqual(current.Endpoints, slice.Endpoints) &&
			equality.Semantic.DeepEqual(current.Ports, slice.Ports) && hasLabels(current, slice.Labels)
		current.Endpoints, current.Ports = slice.Endpoints, slice.Ports
		setLabels(current, slice.Labels)
		return !same
	})
}

func (b *Bootstrap) endpoints(addresses []net.IP) *corev1.Endpoints {
	subset := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Name: "https", Port: int32(b.cfg.SecurePort), Protocol: corev1.ProtocolTCP}}}
	for _, ip := range addresses {
		subset.Addresses = append(subset.Addresses, corev1.EndpointAddress{IP: ip.String()})
	}
	out := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceDefault,
		Name:      serviceName,
		Labels:    map[string]string{discoveryv1.LabelSkipMirror: "true"},
	}}
	if len(addresses) > 0 {
		out.Subsets = []corev1.EndpointSubset{subset}
	}
	return out
}

func (b *Bootstrap) slice(addresses []net.IP) *discoveryv1.EndpointSlice {
	out := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault,
			Name:      serviceName,
			Labels:    map[string]string{discoveryv1.LabelServiceName: serviceName},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	if len(addresses) > 0 {
		out.Ports = []discoveryv1.EndpointPort{{
			Name: ptr.To("https"), Port: ptr.To(int32(b.cfg.SecurePort)), Protocol: ptr.To(corev1.ProtocolTCP),
		}}
	}
	if b.cfg.AdvertiseAddress.To4() == nil {
		out.AddressType = discoveryv1.AddressTypeIPv6
	}
	for _, ip := range addresses {
		out.Endpoints = append(out.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{ip.String()},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		})
	}
	return out
}

// write creates obj, or lets change mend what is stored; change reports whether it had to.
func (b *Bootstrap) write(ctx context.Context, resource schema.GroupResource, obj kinds.Object, change func(kinds.Object) bool) error {
	current, err := b.cfg.Objects.Get(ctx, resource, obj.GetNamespace(), obj.GetName())
	if apierrors.IsNotFound(err) {
		if _, err = b.cfg.Objects.Create(ctx, resource, obj); err == nil {
			return nil
		}
		if err = b.appears(ctx, resource, obj, err); err != nil {
			return err
		}
	} else if err != nil {
		return err
	} else if !change(current.DeepCopyObject().(kinds.Object)) {
		return nil
	}
	_, err = b.cfg.Objects.Update(ctx, resource, obj.GetNamespace(), obj.GetName(), func(stored kinds.Object) (kinds.Object, error) {
		change(stored)
		return stored, nil
	})
	return err
}

// appears waits for an object that could not be created because another server that starts at the same time creates it just
// now: it is there already, or its address is taken for it. Where nobody does, refusal is why it could not be created.
func (b *Bootstrap) appears(ctx context.Context, resource schema.GroupResource, obj kinds.Object, refusal error) error {
	if !apierrors.IsAlreadyExists(refusal) && !apierrors.IsInvalid(refusal) {
		return refusal
	}
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 5*time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := b.cfg.Objects.Live(ctx, resource, obj.GetNamespace(), obj.GetName())
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if wait.Interrupted(err) {
		return refusal
	}
	return err
}

func hasLabels(obj metav1.Object, labels map[string]string) bool {
	for k, v := range labels {
		if have, ok := obj.GetLabels()[k]; !ok || have != v {
			return false
		}
	}
	return true
}

func setLabels(obj metav1.Object, labels map[string]string) {
	all := obj.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	for k, v := range labels {
		all[k] = v
	}
	obj.SetLabels(all)
}
