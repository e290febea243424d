package apiserver

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/apiserver/bootstrap"
	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/components/apiserver/objects/informers"
	"quintet.dev/quintet/components/apiserver/registry"
)

// storedKinds are the rows of what is served as the store and its caches need them. Their hooks know the configuration,
// but no policy: who may do what, and which addresses are free, is decided by parts that read and write objects by
// these rows.
func storedKinds(b *base) []*api.Kind {
	return newKinds(b, api.Deps{Services: noAddresses{b.services.primary()}})
}

// newKinds makes the rows of what is served, with hooks by the configuration and by policy.
func newKinds(b *base, policy api.Deps) []*api.Kind {
	policy.Clock, policy.AllowPrivileged = b.config.Clock, b.config.AllowPrivileged
	policy.Pods = api.PodFeatures{
		StopSignals:  b.gates.On(gates.ContainerStopSignals),
		TrustBundles: b.gates.On(gates.ClusterTrustBundleProjection),
		Certificates: b.gates.On(gates.PodCertificateRequest),
	}
	policy.ScaleToZero = b.gates.On(gates.HPAScaleToZero)
	policy.NominateBound = !b.gates.On(gates.ClearingNominatedNodeNameAfterBinding)
	policy.StrictServiceNames = !b.gates.On(gates.RelaxedServiceNameValidation)
	policy.OpenCIDRStatus = !b.gates.On(gates.ServiceCIDRStatusFieldWiping)
	rows := slices.DeleteFunc(kinds.Table(policy), func(row *api.Kind) bool { return !markServed(b, row) })
	for _, row := range rows {
		if ttl := b.config.EventTTL; ttl != 0 && row.Prefix == "events" {
			row.TTL = func(api.Object) time.Duration { return max(ttl, 0) }
		}
	}
	return rows
}

// markServed marks what of a kind isn't served, and reports whether anything is.
func markServed(b *base, row *api.Kind) (any bool) {
	on := row.Gate == "" || b.gates.On(row.Gate)
	for i := range row.Versions {
		v := &row.Versions[i]
		v.Unserved = v.Unserved || !on || !b.config.ServesAPI(v.GroupVersion, row.Resource)
		any = any || !v.Unserved
	}
	return any
}

// kindRegistry is access to stored objects for the server's own parts, past authorization and admission. Services that
// are created through it get no addresses; see allocatingStore.
type kindRegistry struct {
	*registry.Local
	table     []registry.Resource
	informers *informers.Factory // a part that asks for one calls StartWithContext, too, with a context of Run
}

func newRegistry(b *base, rows []*api.Kind, s *stores, undo *cleanup) *kindRegistry {
	r := &kindRegistry{table: make([]registry.Resource, len(rows))}
	for i, row := range rows {
		r.table[i].Kind = row
		switch {
		case !row.Virtual():
			r.table[i].Cache = s.ofKind(row).caches.Add(row)
		case row.Read != nil:
			r.table[i].Cache = s.first().caches.Unstored(row)
		}
	}
	r.Local = registry.New(registry.Config{
		Resources: r.table, Scheme: b.scheme(), Types: b.types(), Clock: b.config.Clock,
	}).Local()
	r.informers = informers.New(r.Local, rows)
	undo.background(func() { r.Prepare(bootstrap.Resources()...) }) // while the rest is made
	return r
}

// withCaches joins rows that were made as those of the registry were, but with other hooks, with the same caches.
func (r *kindRegistry) withCaches(rows []*api.Kind) []registry.Resource {
	table := make([]registry.Resource, len(rows))
	for i, row := range rows {
		table[i] = registry.Resource{Kind: row, Cache: r.table[i].Cache}
	}
	return table
}

// namespaceLabels returns the labels of a namespace as the caches have them.
func (r *kindRegistry) namespaceLabels(ctx context.Context, name string) (map[string]string, error) {
	ns, err := objects.As[*corev1.Namespace](r.Get(ctx, corev1.Resource("namespaces"), "", name))
	if err != nil {
		return nil, err
	}
	return ns.Labels, nil
}

// noAddresses is the api.ServiceAllocator of the rows by which objects are stored: it allocates nothing.
type noAddresses struct{ primary corev1.IPFamily }

func (noAddresses) Allocate(context.Context, *corev1.Service, *corev1.Service, bool) (func(api.Outcome), error) {
	return nil, nil
}

func (n noAddresses) Primary() corev1.IPFamily { return n.primary }
