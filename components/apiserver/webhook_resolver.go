package apiserver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/components/apiserver/objects"
)

// webhookEgress are the ways to webhooks. The Service "kubernetes" is this server itself, which takes it for one of its
// own parts.
func webhookEgress(b *base) webhook.AuthenticationInfoResolverWrapper {
	egress := b.egress.Webhooks()
	return func(from webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
		if egress != nil {
			from = egress(from)
		}
		return &webhook.AuthenticationInfoResolverDelegator{
			ClientConfigForFunc: from.ClientConfigFor,
			ClientConfigForServiceFunc: func(name, namespace string, port int) (*rest.Config, error) {
				if name == "kubernetes" && namespace == metav1.NamespaceDefault && port == 443 {
					direct := func(http.RoundTripper) http.RoundTripper { return b.loopback }
					return &rest.Config{WrapTransport: direct}, nil
				}
				return from.ClientConfigForService(name, namespace, port)
			},
		}
	}
}

// serviceResolver finds who serves a Service. It takes any of its endpoints, as upstream does with
// --enable-aggregator-routing: that needs no proxy for cluster IPs where this server runs.
type serviceResolver struct {
	objects objects.Reader
	// endpointsOnly refuses Services that are another name, as upstream does with that flag.
	endpointsOnly bool
}

func newServiceResolver(b *base, r *kindRegistry) serviceResolver {
	return serviceResolver{objects: r.Local, endpointsOnly: b.config.EnableAggregatorRouting}
}

// ResolveEndpoint implements webhook.ServiceResolver.
func (s serviceResolver) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	ctx := context.Background() // all is in memory
	service, err := objects.As[*corev1.Service](s.objects.Get(ctx, corev1.Resource("services"), namespace, name))
	if apierrors.IsNotFound(err) {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "service"}, name) // upstream's word
	}
	if err != nil {
		return nil, err
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		if s.endpointsOnly {
			return nil, fmt.Errorf("unsupported service type %q", service.Spec.Type)
		}
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
	var ready, others []*url.URL
	for _, slice := range slices {
		switch {
		case slice.Labels[discoveryv1.LabelServiceName] != service.Name:
		case len(service.Spec.IPFamilies) == 0, string(slice.AddressType) == string(service.Spec.IPFamilies[0]):
			ready = append(ready, readyIn(slice, portName)...)
		default:
			others = append(others, readyIn(slice, portName)...)
		}
	}
	if len(ready) == 0 {
		ready = others // of the family that isn't the Service's first, which this server may have no way to
	}
	if len(ready) == 0 {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", service.Name))
	}
	return ready[rand.IntN(len(ready))], nil
}

// readyIn are those who serve a port of a Service.
func readyIn(slice *discoveryv1.EndpointSlice, portName string) (out []*url.URL) {
	for _, p := range slice.Ports {
		if p.Port == nil || p.Name == nil || *p.Name != portName {
			continue
		}
		for _, e := range slice.Endpoints {
			if (e.Conditions.Ready == nil || *e.Conditions.Ready) && len(e.Addresses) > 0 {
				out = append(out, at(e.Addresses[0], *p.Port))
			}
		}
	}
	return out
}

func at(host string, port int32) *url.URL {
	return &url.URL{Scheme: "https", Host: net.JoinHostPort(host, strconv.Itoa(int(port)))}
}
