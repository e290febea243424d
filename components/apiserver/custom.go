package apiserver

import (
	"context"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/bootstrap"
	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/crd"
	"quintet.dev/quintet/components/apiserver/discovery"
	"quintet.dev/quintet/components/apiserver/handlers"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/openapi"
)

// custom is what the server knows of custom resources, and whom it tells when they change.
type custom struct {
	manager   *crd.Manager
	mu        sync.Mutex
	caches    map[*kinds.Kind]*cache.Cache // of those that are served; replaced, never changed
	discovery *discovery.Server
	openapi   *openapi.Server
}

func (s *Server) makeCustom() error {
	s.custom.manager = crd.New(crd.Config{
		Objects: handlers.Whole{Local: s.local}, Install: s.installCustom, Shadows: s.shadows, Convert: s.convertCustom, List: s.listCustom,
		EstablishAfter: s.establishAfter(), Shared: s.shared, Services: s.resolver(), Egress: s.webhooks(), Clock: s.config.Clock,
	})
	return nil
}

// establishAfter is for how long a custom resource is there before clients are told: of several servers, each is to have it by then.
func (s *Server) establishAfter() time.Duration {
	if s.config.Servers > 1 {
		return 5 * time.Second // upstream's
	}
	return 0
}

// shared tells whether there may be other servers on the same store: so many were told of, or they tell of themselves.
func (s *Server) shared(ctx context.Context) bool {
	if s.config.Servers > 1 {
		return true
	}
	all, err := s.local.List(ctx, coordinationv1.Resource("leases"), metav1.NamespaceSystem)
	return err != nil || slices.ContainsFunc(all, func(lease kinds.Object) bool {
		return bootstrap.IsServer(lease) && lease.GetName() != s.id()
	})
}

// installCustom serves these rows beside the built-in kinds, and no others. Discovery tells of a resource once it can be
// used.
func (s *Server) installCustom(ctx context.Context, rows []*kinds.Kind, defined []schema.GroupVersion) error {
	all := rows
	rows = slices.DeleteFunc(slices.Clone(rows), s.isOutOfReach)
	before, now := s.custom.caches, make(map[*kinds.Kind]*cache.Cache, len(rows))
	resources := make([]handlers.Resource, len(rows))
	for i, kind := range rows {
		c := before[kind]
		if c == nil {
			c = s.places[0].caches.Add(kind)
		}
		now[kind] = c
		resources[i] = handlers.Resource{Kind: kind, Cache: c}
	}
	s.custom.mu.Lock()
	s.custom.caches = now
	s.custom.mu.Unlock()
	s.local.Install(resources)
	s.api.Install(resources)
	for kind, c := range before {
		if now[kind] == nil {
			s.places[0].caches.Remove(c)
		}
	}
	for _, c := range now {
		if err := c.WaitReady(ctx); err != nil {
			return err
		}
	}
	return s.tell(all, defined)
}

// listCustom reads all objects of a row as they are in the store now.
func (s *Server) listCustom(ctx context.Context, row *kinds.Kind) ([]kinds.Object, error) {
	if s.isOutOfReach(row) {
		return nil, nil // it was never served
	}
	c := s.customCache(row.Prefix)
	if c == nil {
		return nil, apierrors.NewServiceUnavailable(row.Resource + "." + row.Hub.Group + " is not served")
	}
	l, err := c.List(ctx, cache.ListOptions{})
	if err != nil {
		return nil, err
	}
	out := make([]kinds.Object, len(l.Entries))
	for i, e := range l.Entries {
		out[i] = e.Object
	}
	return out, nil
}

// convertCustom asks for the other versions of objects when they are written, so that these can be read when nobody is there
// who converts. What fails is tried again by whoever reads it.
func (s *Server) convertCustom(ctx context.Context, row *kinds.Kind) {
	for ctx.Err() == nil {
		s.custom.mu.Lock()
		c := s.custom.caches[row]
		s.custom.mu.Unlock()
		if c == nil || followCustom(ctx, c, row) != nil {
			return
		}
	}
}

// followCustom returns nil when it fell behind.
func followCustom(ctx context.Context, c *cache.Cache, row *kinds.Kind) error {
	w, err := c.Watch(ctx, cache.WatchOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		batch, err := w.Next(ctx)
		switch {
		case apierrors.IsResourceExpired(err):
			return nil
		case err != nil:
			return err
		}
		for _, event := range batch {
			if event.Type != cache.Added && event.Type != cache.Modified {
				continue
			}
			for i := range row.Versions {
				if v := &row.Versions[i]; !v.Unserved {
					_, _ = event.Entry.In(row, v)
				}
			}
		}
	}
}

func (s *Server) customCache(prefix string) *cache.Cache {
	s.custom.mu.Lock()
	defer s.custom.mu.Unlock()
	for kind, c := range s.custom.caches {
		if kind.Prefix == prefix {
			return c
		}
	}
	return nil
}

// isOutOfReach reports whether a custom resource can't be asked for, as its group is one of the program's.
func (s *Server) isOutOfReach(kind *kinds.Kind) bool {
	return s.hasOwn(func(v schema.GroupVersion) bool { return v.Group == kind.Hub.Group })
}

// hasOwn reports whether the program's kinds have such a version.
func (s *Server) hasOwn(such func(schema.GroupVersion) bool) bool {
	return slices.ContainsFunc(s.table, func(r handlers.Resource) bool {
		return slices.ContainsFunc(r.Kind.Versions, func(v kinds.Version) bool { return such(v.GroupVersion) && !v.Unserved })
	})
}

// told is a custom resource as discovery and OpenAPI tell of it. Upstream tells of those that can't be asked for, too, in the
// versions that the program doesn't have; in those that it has, which are within, OpenAPI v2 does.
func (s *Server) told(kind *kinds.Kind) (told, within *kinds.Kind) {
	if !s.isOutOfReach(kind) {
		return kind, nil
	}
	in := func(own bool) *kinds.Kind {
		told := *kind
		told.Versions = slices.Clone(kind.Versions)
		for i := range told.Versions {
			v := &told.Versions[i]
			v.Unserved = v.Unserved || own != s.hasOwn(func(own schema.GroupVersion) bool { return own == v.GroupVersion })
		}
		return &told
	}
	return in(false), in(true)
}

// shadows reports whether a custom resource is stored where a built-in kind is.
func (s *Server) shadows(kind *kinds.Kind) bool {
	return slices.ContainsFunc(s.table, func(r handlers.Resource) bool { return r.Kind.Prefix == kind.Prefix })
}

// tell makes discovery and OpenAPI speak of the built-in kinds and of these, and APIServices of what is defined.
func (s *Server) tell(rows []*kinds.Kind, defined []schema.GroupVersion) error {
	table := make([]*kinds.Kind, 0, len(s.table)+len(rows))
	for _, r := range s.table {
		table = append(table, r.Kind)
	}
	var onlyV2 []*kinds.Kind
	for _, row := range rows {
		if !row.Custom.Established() {
			continue
		}
		told, within := s.told(row)
		table = append(table, told)
		if within != nil {
			onlyV2 = append(onlyV2, within)
		}
	}
	s.custom.discovery.Set(table)
	s.custom.openapi.Set(table, onlyV2)
	return s.aggregator.Serve(table, defined)
}
