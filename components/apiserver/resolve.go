package apiserver

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/objects"
)

// serviceResolver finds who serves a Service. It takes an endpoint, as upstream does with --enable-aggregator-routing: that
// needs no proxy for cluster IPs where this server runs.
type serviceResolver struct{ objects objects.Reader }

// ResolveEndpoint implements webhook.ServiceResolver.
func (s serviceResolver) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	ctx := context.Background() // all is in memory
	service, err := objects.As[*corev1.Service](s.objects.Get(ctx, schema.GroupResource{Resource: "services"}, namespace, name))
	if err != nil {
		return nil, err
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return at(service.Spec.ExternalName, port), nil
	}
	for _, p := range service.Spec.Ports {
		if p.Port == port {
			return s.endpoint(ctx, service, p.Name)
		}
	}
	return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", port, name))
}

func (s serviceResolver) endpoint(ctx context.Context, service *corev1.Service, portName string) (*url.URL, error) {
	slices, err := objects.ListAs[*discoveryv1.EndpointSlice](s.objects.List(ctx,
		schema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"}, service.Namespace))
	if err != nil {
		return nil, err
	}
	for _, slice := range slices {
		if slice.Labels[discoveryv1.LabelServiceName] != service.Name {
			continue
		}
		for _, p := range slice.Ports {
			if p.Port == nil || p.Name != nil && *p.Name != portName {
				continue
			}
			for _, e := range slice.Endpoints {
				if (e.Conditions.Ready == nil || *e.Conditions.Ready) && len(e.Addresses) > 0 {
					return at(e.Addresses[0], *p.Port), nil
				}
			}
		}
	}
	return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", service.Name))
}

func at(host string, port int32) *url.URL {
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(host, strconv.Itoa(int(port)))}
}
