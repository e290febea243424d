package bootstrap

import (
	"cmp"
	"context"
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/objects"
)

// ensureCounted puts this server among the endpoints, of which there are as many as there are servers.
func (e *serviceEndpoints) ensureCounted(ctx context.Context, ports bool) error {
	current, err := e.addresses(ctx)
	if err != nil {
		return err
	}
	return e.write(ctx, counted(current, e.address, e.servers), ports)
}

// uncounted are the endpoints without this server.
func (e *serviceEndpoints) uncounted(ctx context.Context) ([]net.IP, error) {
	current, err := e.addresses(ctx)
	return slices.DeleteFunc(current, e.address.Equal), err
}

func (e *serviceEndpoints) addresses(ctx context.Context) ([]net.IP, error) {
	found, err := objects.As[*corev1.Endpoints](
		e.writer.objects.Live(ctx, corev1.Resource("endpoints"), metav1.NamespaceDefault, serviceName))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []net.IP
	if len(found.Subsets) != 1 { // made by another component: replace them
		return nil, nil
	}
	for _, a := range found.Subsets[0].Addresses {
		if ip := net.ParseIP(a.IP); ip != nil {
			out = append(out, ip)
		}
	}
	return out, nil
}

// counted adds a server's own address to those of the others. Where that is one too many, those go that come after its
// own in the order of their texts: each server that lives drops its successors, so that the addresses of servers that
// are gone go too.
func counted(others []net.IP, own net.IP, count int) []net.IP {
	all := slices.Clone(others)
	if !slices.ContainsFunc(all, own.Equal) {
		all = append(all, own)
	}
	slices.SortFunc(all, func(x, y net.IP) int { return cmp.Compare(x.String(), y.String()) })
	all = slices.CompactFunc(all, net.IP.Equal)
	for len(all) > count {
		next := (slices.IndexFunc(all, own.Equal) + 1) % len(all)
		all = slices.Delete(all, next, next+1)
	}
	return all
}
