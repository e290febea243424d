package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
)

var (
	leases      = coordinationv1.Resource("leases")
	definitions = apiextensionsv1.Resource("customresourcedefinitions")
	services    = schema.GroupResource{Group: apiregistrationv1.GroupName, Resource: "apiservices"}
)

// feed follows the objects that tell which servers there are, and what is hidden of what they serve.
func (p *Peers) feed(ctx context.Context, group *errgroup.Group) {
	follow := func(resource schema.GroupResource, changed func(old, new api.Object)) {
		group.Go(func() error { return p.config.Objects.Feed(ctx, resource, changed, func() {}) })
	}
	follow(leases, func(old, new api.Object) {
		if p.holder(old) != p.holder(new) {
			p.asking.Wake()
		}
	})
	hide := func(old, new api.Object) {
		var name string
		var versions []schema.GroupVersion
		if new != nil {
			name, versions = fmt.Sprintf("%T %s", new, new.GetName()), asked(new)
		} else {
			name = fmt.Sprintf("%T %s", old, old.GetName())
		}
		if p.hidden.set(name, versions, p.config.Clock.Now()) {
			p.showing.Wake()
		}
	}
	follow(definitions, hide)
	follow(services, hide)
}

// holder is which life of which other server a Lease tells of, "" if of none.
func (p *Peers) holder(obj api.Object) string {
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok || lease.Namespace != metav1.NamespaceSystem ||
		lease.Labels["apiserver.kubernetes.io/identity"] != "kube-apiserver" ||
		lease.Name == p.config.ID || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return lease.Name + " " + *lease.Spec.HolderIdentity
}

// asked are the group versions that an object is about.
func asked(obj api.Object) []schema.GroupVersion {
	var out []schema.GroupVersion
	switch o := obj.(type) {
	case *apiextensionsv1.CustomResourceDefinition:
		for _, v := range o.Spec.Versions {
			// also if it isn't served any more: others may not know yet
			out = append(out, schema.GroupVersion{Group: o.Spec.Group, Version: v.Name})
		}
	case *apiregistrationv1.APIService:
		if o.Spec.Service != nil {
			out = append(out, schema.GroupVersion{Group: o.Spec.Group, Version: o.Spec.Version})
		}
	}
	return out
}

// A server that doesn't answer is asked again, ever more rarely.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Minute
)

// follow keeps what the others serve up to date, and shows it without what is hidden, until ctx ends.
func (p *Peers) follow(ctx context.Context) {
	var found atomic.Pointer[view]
	found.Store(&view{})
	var both sync.WaitGroup
	defer both.Wait()
	both.Go(func() {
		p.asking.Run(ctx, nil, func(ctx context.Context) error {
			all, err := p.look(ctx)
			found.Store(&all)
			p.showing.Wake()
			return err
		})
	})
	var reveal time.Time // when something hidden is to be shown again; zero if there is no such thing
	p.showing.Run(ctx, func() <-chan time.Time {
		if reveal.IsZero() {
			return nil
		}
		return p.config.Clock.After(reveal.Sub(p.config.Clock.Now()))
	}, func(context.Context) error {
		var versions map[schema.GroupVersion]bool
		versions, reveal = p.hidden.all(p.config.Clock.Now())
		p.show(found.Load().without(versions))
		return nil
	})
}

func (p *Peers) show(v view) {
	p.shown.Store(&v)
	told := make(map[string][]apidiscoveryv2.APIGroupDiscovery, len(v))
	for id, from := range v {
		told[id] = from.groups
	}
	p.config.Changed(told)
}

// look asks all other servers what they serve. What it returns is whole but for those of which the error tells.
func (p *Peers) look(ctx context.Context) (view, error) {
	all, err := objects.ListAs[*coordinationv1.Lease](p.config.Objects.List(ctx, leases, metav1.NamespaceSystem))
	if err != nil {
		p.metrics.unseen.WithLabelValues("lease_list").Inc()
		return nil, err
	}
	out := view{}
	var errs []error
	for _, lease := range all {
		if p.holder(lease) == "" {
			continue
		}
		found, err := p.ask(ctx, lease.Name)
		errs = append(errs, err)
		if len(found.resources) > 0 {
			out[lease.Name] = found
		}
	}
	return out, errors.Join(errs...)
}

// ask asks a server what it serves.
func (p *Peers) ask(ctx context.Context, id string) (peer, error) {
	out := peer{resources: map[schema.GroupVersionResource]bool{}}
	at, err := p.addressOf(ctx, id)
	if err != nil {
		p.metrics.unseen.WithLabelValues("hostport_resolution").Inc()
		return out, err
	}
	var errs []error
	for _, path := range []string{"/api", "/apis"} {
		list, err := p.discover(ctx, at, path)
		if err != nil {
			p.metrics.unseen.WithLabelValues("fetch_discovery").Inc()
			errs = append(errs, fmt.Errorf("asking API server %s at %s for %s: %w", id, at, path, err))
			continue
		}
		for _, g := range list.Items {
			for _, v := range g.Versions {
				for _, r := range v.Resources {
					out.resources[schema.GroupVersionResource{
						Group: g.Name, Version: v.Version, Resource: r.Resource}] = true
				}
			}
			if g.Name != "" {
				out.groups = append(out.groups, g)
			}
		}
	}
	return out, errors.Join(errs...)
}

const (
	discoveryTimeout = 10 * time.Second
	// longest bounds what is read of one answer, in bytes; a server with a thousand definitions tells a few million.
	longest = 64 << 20
)

// discover asks a server for one of its two documents, as system:apiserver. It is to tell of itself alone; servers
// before 1.36 know no other way.
func (p *Peers) discover(ctx context.Context, at, path string) (*apidiscoveryv2.APIGroupDiscoveryList, error) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+at+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set(passedHeader, "true")
	r.Header.Set("Accept", discovery.AcceptV2NoPeer+","+discovery.AcceptV2+","+discovery.AcceptV1)
	as := transport.NewAuthProxyRoundTripper(user.APIServerUser, user.APIServerUser, []string{user.AllAuthenticated},
		nil, p.transport.Load())
	answer, err := as.RoundTrip(r)
	if err != nil {
		p.metrics.passedOn(http.StatusServiceUnavailable, schema.GroupVersionResource{})
		return nil, err
	}
	defer answer.Body.Close()
	p.metrics.passedOn(answer.StatusCode, schema.GroupVersionResource{})
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %s", answer.Status)
	}
	list := &apidiscoveryv2.APIGroupDiscoveryList{}
	if err := json.NewDecoder(io.LimitReader(answer.Body, longest)).Decode(list); err != nil {
		return nil, err
	}
	if want := apidiscoveryv2.SchemeGroupVersion.String(); list.APIVersion != want {
		return nil, fmt.Errorf("the answer is of %s, not of %s", list.APIVersion, want)
	}
	return list, nil
}
