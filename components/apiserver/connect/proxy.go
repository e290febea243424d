package connect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/proxy"

	"quintet.dev/quintet/components/apiserver/objects"
)

// nodeProxy passes a request to a kubelet, or to another port of its node.
func (c *Connector) nodeProxy(w http.ResponseWriter, r *http.Request, _, name, path string) error {
	scheme, id, port, ok := utilnet.SplitSchemeNamePort(name)
	if !ok {
		return badRequest("invalid node request %q", name)
	}
	node, err := objects.As[*corev1.Node](c.objects.Live(r.Context(), corev1.Resource("nodes"), "", id))
	if err != nil {
		return err
	}
	host, err := c.kubeletAt(node)
	if err != nil {
		return err
	}
	address, kubeletPort, _ := net.SplitHostPort(host)
	if err := mayDial(r.Context(), address); err != nil {
		return badRequest("%v", err)
	}
	if port == "" || port == kubeletPort {
		return c.pass(w, r, path, &url.URL{Scheme: "https", Host: host}, c.kubelet())
	}
	return c.pass(w, r, path, &url.URL{Scheme: orHTTP(scheme), Host: net.JoinHostPort(address, port)}, c.plain)
}

var errNotAllowed = errors.New("address not allowed")

// mayDial rejects addresses that only this server itself, or its link, can reach: users that can set a node's addresses
// must not get there, to any port and least of all with this server's certificate.
func mayDial(ctx context.Context, host string) error {
	found, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(found, func(a net.IPAddr) bool { return !a.IP.IsGlobalUnicast() }) {
		return errNotAllowed
	}
	return nil
}

// podProxy passes a request to a port of a pod.
func (c *Connector) podProxy(w http.ResponseWriter, r *http.Request, namespace, name, path string) error {
	scheme, id, port, ok := utilnet.SplitSchemeNamePort(name)
	if !ok {
		return badRequest("invalid pod request %q", name)
	}
	pod, err := c.pod(r, namespace, id)
	if err != nil {
		return err
	}
	ip := pod.Status.PodIP
	if len(pod.Status.PodIPs) > 0 {
		ip = pod.Status.PodIPs[0].IP
	}
	if parsed := net.ParseIP(ip); parsed == nil || !parsed.IsGlobalUnicast() {
		return badRequest("%v", errNotAllowed)
	}
	if port == "" {
		port = firstPort(pod)
	}
	if port == "" {
		port = defaultPort(scheme)
	}
	return c.pass(w, r, path, &url.URL{Scheme: orHTTP(scheme), Host: net.JoinHostPort(ip, port)}, c.plain)
}

func firstPort(pod *corev1.Pod) string {
	for _, container := range pod.Spec.Containers {
		if len(container.Ports) > 0 {
			return strconv.Itoa(int(container.Ports[0].ContainerPort))
		}
	}
	return ""
}

// serviceProxy passes a request to any of the endpoints of a service that are pods of its namespace: others could lead
// where the client may not go.
func (c *Connector) serviceProxy(w http.ResponseWriter, r *http.Request, namespace, name, path string) error {
	scheme, id, port, ok := utilnet.SplitSchemeNamePort(name)
	if !ok {
		return badRequest("invalid service request %q", name)
	}
	port, err := c.portName(r, namespace, id, port)
	if err != nil {
		return err
	}
	//lint:ignore SA1019 a Service's proxy goes by its Endpoints, as upstream's
	endpoints, err := objects.As[*corev1.Endpoints](
		c.objects.Get(r.Context(), corev1.Resource("endpoints"), namespace, id))
	if apierrors.IsNotFound(err) {
		return apierrors.NewNotFound(corev1.Resource("services"), id)
	}
	if err != nil {
		return err
	}
	if len(endpoints.Subsets) == 0 {
		name = id
	}
	for subset := range shuffled(endpoints.Subsets) {
		i := slices.IndexFunc(subset.Ports, func(p corev1.EndpointPort) bool { return p.Name == port })
		if i < 0 {
			continue
		}
		for address := range shuffled(subset.Addresses) {
			if c.isPod(r, namespace, &address) {
				host := net.JoinHostPort(address.IP, strconv.Itoa(int(subset.Ports[i].Port)))
				return c.pass(w, r, path, &url.URL{Scheme: orHTTP(scheme), Host: host}, c.plain)
			}
		}
	}
	return apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", name))
}

// shuffled goes through all items, from a random one on.
func shuffled[T any](items []T) iter.Seq[T] {
	return func(yield func(T) bool) {
		if len(items) == 0 {
			return
		}
		start := rand.N(len(items))
		for i := range items {
			if !yield(items[(start+i)%len(items)]) {
				return
			}
		}
	}
}

// isPod tells whether an address is that of the pod that it is said to be of.
func (c *Connector) isPod(r *http.Request, namespace string, address *corev1.EndpointAddress) bool {
	target := address.TargetRef
	if target == nil || target.Namespace != namespace {
		return false
	}
	pod, err := objects.As[*corev1.Pod](c.objects.Get(r.Context(), corev1.Resource("pods"), namespace, target.Name))
	return err == nil && slices.ContainsFunc(pod.Status.PodIPs,
		func(ip corev1.PodIP) bool { return ip.IP == address.IP })
}

// portName is the name of the port that is asked for: endpoints know ports of a service by their names only.
func (c *Connector) portName(r *http.Request, namespace, id, asked string) (string, error) {
	number, err := strconv.ParseInt(asked, 10, 64)
	if err != nil {
		return asked, nil
	}
	service, err := objects.As[*corev1.Service](c.objects.Live(r.Context(), corev1.Resource("services"), namespace, id))
	if err != nil {
		return "", err
	}
	for _, p := range service.Spec.Ports {
		if int64(p.Port) == number {
			return p.Name, nil
		}
	}
	return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", number, id))
}

func orHTTP(scheme string) string {
	if scheme == "" {
		return "http"
	}
	return scheme
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// pass proxies the request to a path of a backend. The query is forwarded with plain requests only: a connection that
// is upgraded with read permission alone must not request more, such as a command that a kubelet is to run.
func (c *Connector) pass(w http.ResponseWriter, r *http.Request, path string, at *url.URL,
	transport http.RoundTripper) error {
	at.Path = utilnet.JoinPreservingTrailingSlash(path)
	h := proxy.NewUpgradeAwareHandler(at, transport, true, false, responder{})
	h.MaxBytesPerSec = c.maxBytes
	h.ServeHTTP(w, r)
	return nil
}
