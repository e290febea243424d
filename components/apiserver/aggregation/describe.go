package aggregation

import (
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"sync"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
)

// acceptAggregated asks for one document with all that a server has. Older servers know only the beta, which looks the
// same, or nothing of the kind.
const acceptAggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
	"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"

// description is what discovery tells of a group version: of one whose server doesn't tell, only that it is there.
func (t route) description() *apidiscoveryv2.APIVersionDiscovery {
	if d := t.described.Load(); d != nil {
		return d.version
	}
	return &apidiscoveryv2.APIVersionDiscovery{Version: t.spec.Version,
		Freshness: apidiscoveryv2.DiscoveryFreshnessStale}
}

// Elsewhere describes the group versions that others serve now.
func (a *Aggregator) Elsewhere() map[schema.GroupVersion]*apidiscoveryv2.APIVersionDiscovery {
	out := map[schema.GroupVersion]*apidiscoveryv2.APIVersionDiscovery{}
	for gv, to := range *a.routes.Load() {
		out[gv] = to.description()
	}
	return out
}

// Acquaint fetches the discovery of all servers that are believed to be available, so that a ready server doesn't
// report them as empty. It is called between Sync and Run, which goes on with those that take too long.
func (a *Aggregator) Acquaint(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var asking sync.WaitGroup
	for _, to := range *a.routes.Load() {
		if to.available {
			asking.Go(func() { to.describe(within, true) })
		}
	}
	asking.Wait()
	return a.tell()
}

// describe updates the discovery of the group version. A version that the server doesn't describe is stale. An
// unavailable one is fetched, too, as upstream does: its discovery may work although the availability check fails.
func (r *remote) describe(ctx context.Context, available bool) {
	before := r.described.Load()
	now, err := r.ask(ctx, before)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		now = nil
	}
	if err != nil && available { // else the status tells why
		klog.FromContext(ctx).Error(err, "Failed to fetch discovery of extension server", "name", r.name)
	}
	if now != before {
		r.described.Store(now)
		r.owner.loop.Wake()
	}
}

// ask returns what the server tells; before, if that is as it was.
func (r *remote) ask(ctx context.Context, before *description) (*description, error) {
	header := asProber()
	header.Set("Accept", acceptAggregated)
	if before != nil && before.etag != "" {
		header.Set("If-None-Match", before.etag)
	}
	got, err := r.get(ctx, "/apis", header, checkTimeout)
	if err != nil {
		return nil, err
	}
	switch {
	case got.code == http.StatusNotModified && before != nil:
		return before, nil
	case got.code == http.StatusOK && isAggregated(got.header.Get("Content-Type")):
		return r.readAggregated(got)
	case got.code == http.StatusServiceUnavailable: // for now: it isn't known to be an older server
		return nil, fmt.Errorf("discovery of %s: status %d", r.name, got.code)
	}
	return r.askPlainly(ctx, before)
}

func isAggregated(contentType string) bool {
	media, params, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/json" && params["as"] == "APIGroupDiscoveryList" &&
		params["g"] == apidiscoveryv2.GroupName
}

func (r *remote) readAggregated(got *answer) (*description, error) {
	var list apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(got.body, &list); err != nil {
		return nil, fmt.Errorf("discovery of %s: %w", r.name, err)
	}
	d := &description{etag: got.header.Get("ETag"),
		version: &apidiscoveryv2.APIVersionDiscovery{Version: r.spec.Version}}
	for _, group := range list.Items {
		for i := range group.Versions {
			if group.Name == r.spec.Group && group.Versions[i].Version == r.spec.Version {
				d.version = &group.Versions[i]
			}
		}
	}
	d.version.Freshness = apidiscoveryv2.DiscoveryFreshnessCurrent
	nameKinds(d.version.Resources)
	return d, nil
}

// nameKinds puts empty kinds where there are none: clients of some releases look at them unasked.
func nameKinds(resources []apidiscoveryv2.APIResourceDiscovery) {
	for i := range resources {
		r := &resources[i]
		if r.ResponseKind == nil {
			r.ResponseKind = &metav1.GroupVersionKind{}
		}
		for j := range r.Subresources {
			if sub := &r.Subresources[j]; sub.ResponseKind == nil {
				sub.ResponseKind = &metav1.GroupVersionKind{}
			}
		}
	}
}

// askPlainly reads the plain form, which has a document for each group version and no ETag. All users may read it.
func (r *remote) askPlainly(ctx context.Context, before *description) (*description, error) {
	header := http.Header{"X-Remote-User": {prober}, "Accept": {"application/json"}}
	got, err := r.get(ctx, r.path(), header, checkTimeout)
	if err != nil {
		return nil, err
	}
	if got.code != http.StatusOK {
		return nil, fmt.Errorf("discovery of %s: status %d", r.name, got.code)
	}
	if before != nil && before.plain == string(got.body) {
		return before, nil
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(got.body, &list); err != nil {
		return nil, fmt.Errorf("discovery of %s: %w", r.name, err)
	}
	return &description{plain: string(got.body), version: &apidiscoveryv2.APIVersionDiscovery{
		Version: r.spec.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent,
		Resources: aggregate(list.APIResources),
	}}, nil
}

// aggregate puts the plain form's resources into the aggregated form: subresources below their parents.
func aggregate(plain []metav1.APIResource) []apidiscoveryv2.APIResourceDiscovery {
	var out []apidiscoveryv2.APIResourceDiscovery
	at := map[string]int{}
	parent := func(name string, namespaced bool) *apidiscoveryv2.APIResourceDiscovery {
		i, ok := at[name]
		if !ok {
			i = len(out)
			at[name] = i
			out = append(out, apidiscoveryv2.APIResourceDiscovery{Resource: name, Scope: scope(namespaced),
				ResponseKind: &metav1.GroupVersionKind{}})
		}
		return &out[i]
	}
	for i := range plain {
		p := &plain[i]
		kind := &metav1.GroupVersionKind{Group: p.Group, Version: p.Version, Kind: p.Kind}
		name, sub, isSub := strings.Cut(p.Name, "/")
		r := parent(name, p.Namespaced)
		if isSub {
			r.Subresources = append(r.Subresources,
				apidiscoveryv2.APISubresourceDiscovery{Subresource: sub, Verbs: p.Verbs, ResponseKind: kind})
			continue
		}
		r.Scope, r.ResponseKind, r.Verbs = scope(p.Namespaced), kind, p.Verbs
		r.SingularResource, r.ShortNames, r.Categories = p.SingularName, p.ShortNames, p.Categories
	}
	return out
}

func scope(namespaced bool) apidiscoveryv2.ResourceScope {
	if namespaced {
		return apidiscoveryv2.ScopeNamespace
	}
	return apidiscoveryv2.ScopeCluster
}
