package apiserver

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/components/apiserver/registry"
	"quintet.dev/quintet/components/apiserver/services"
)

// newServices makes what gives Services their addresses and ports.
func newServices(b *base, s *stores, r *kindRegistry) (*services.Allocator, error) {
	store, key := s.nodePorts(b.config.EtcdPrefix)
	allocator, err := services.New(services.Config{
		CIDRs: b.services.clusterIPs, FirstNodePort: b.services.nodePorts.Base, NodePorts: b.services.nodePorts.Size,
		Clock: b.config.Clock, Objects: r.Local,
		Ranges: &services.StoredRange{Store: store, Key: key, Range: b.services.nodePorts},
	})
	if err != nil {
		return nil, err
	}
	return allocator, b.registry.Register(allocator.Metrics())
}

// allocatingStore gives the Services that are created through it their addresses and ports, as requests do.
type allocatingStore struct {
	objects.Store
	services api.ServiceAllocator
	defaults func(api.Object)
}

// Create implements objects.Writer.
func (a allocatingStore) Create(
	ctx context.Context, resource schema.GroupResource, obj api.Object,
) (api.Object, error) {
	service, ok := obj.(*corev1.Service)
	if !ok {
		return a.Store.Create(ctx, resource, obj)
	}
	service = service.DeepCopy()
	a.defaults(service)
	done, err := a.services.Allocate(ctx, service, nil, false)
	if err != nil {
		return nil, err
	}
	created, err := a.Store.Create(ctx, resource, service)
	var unknown *cache.OutcomeUnknownError
	switch {
	case err == nil:
		done(api.Stored)
	case errors.As(err, &unknown):
		done(api.Unsure)
	default:
		done(api.NotStored)
	}
	return created, err
}

// repairServices keeps what services use in order, and tells in events, as upstream's controllers do, what wasn't.
func repairServices(ctx context.Context, b *base, allocator *services.Allocator) error {
	client, err := kubernetes.NewForConfig(b.loopback.Config())
	if err != nil {
		return err
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	defer broadcaster.Shutdown()
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	return allocator.Run(ctx, services.Events{
		Addresses: broadcaster.NewRecorder(scheme.Scheme, "ipallocator-repair-controller"),
		Ports:     broadcaster.NewRecorder(scheme.Scheme, "portallocator-repair-controller"),
	})
}

// newAllocatingStore is the registry, but gives new Services their addresses and ports.
func newAllocatingStore(r *kindRegistry, services api.ServiceAllocator) objects.Store {
	i := slices.IndexFunc(r.table, func(t registry.Resource) bool { return t.Kind.Name == "Service" })
	return allocatingStore{Store: r.Local, services: services, defaults: r.table[i].Kind.HubVersion().Default}
}
