package score

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

const (
	// rescanEvery is how often resources are discovered that no object told of.
	rescanEvery = 30 * time.Second
	// discovery may know a resource some time after its definition says so.
	firstRescan, lastRescan = 100 * time.Millisecond, 4 * time.Second
)

// clients are those of a recorder, which no rate limits. Discovery ends with ctx.
type clients struct {
	http     *http.Client
	watch    rest.Interface
	discover discovery.DiscoveryInterface
}

func newClients(ctx context.Context, config *rest.Config) (c clients, err error) {
	own := rest.CopyConfig(config)
	own.QPS, own.Timeout, own.UserAgent = -1, 0, "quintet-score"
	own.ContentType, own.AcceptContentTypes = "application/json", "application/json"
	own.GroupVersion, own.APIPath = &schema.GroupVersion{}, "/"
	own.WarningHandler = rest.NoWarnings{} // of deprecated kinds, which are watched, too
	own.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	if c.http, err = rest.HTTPClientFor(own); err != nil {
		return c, err
	}
	if c.watch, err = rest.RESTClientForConfigAndClient(own, c.http); err != nil {
		return c, err
	}
	c.discover, err = discovery.NewDiscoveryClientForConfigAndClient(own,
		&http.Client{Transport: bounded{ctx, c.http.Transport}})
	return c, err
}

// bounded ends requests with ctx, in the place of clients that take none.
type bounded struct {
	ctx  context.Context
	next http.RoundTripper
}

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	return b.next.RoundTrip(r.WithContext(b.ctx))
}

// discover follows the resources that are not followed yet. An error of some groups is none if there are others.
func (r *Recorder) discover(ctx context.Context, late bool) error {
	lists, err := r.clients.discover.ServerPreferredResources()
	if len(lists) == 0 && err != nil {
		return err
	}
	for _, of := range watchable(lists) {
		r.follow(ctx, of, late)
	}
	return nil
}

// watchable are the resources that can be listed and watched, but for the events of events.k8s.io, which are those of
// the core group.
func watchable(lists []*metav1.APIResourceList) []resource {
	var out []resource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, a := range list.APIResources {
			of := resource{group: gv.Group, version: gv.Version, name: a.Name, kind: a.Kind}
			if strings.Contains(a.Name, "/") || !slices.Contains(a.Verbs, "list") || !slices.Contains(a.Verbs, "watch") ||
				of.group == "events.k8s.io" {
				continue
			}
			out = append(out, of)
		}
	}
	return out
}

// keepDiscovering looks for resources whenever an object tells that there may be some, and from time to time.
func (r *Recorder) keepDiscovering(ctx context.Context) {
	again := rescanEvery
	timer := time.NewTimer(again)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.rescan:
			again = firstRescan
		case <-timer.C:
			if again *= 2; again > lastRescan {
				again = rescanEvery
			}
		}
		_ = r.discover(ctx, true) // it is tried again
		timer.Reset(again)
	}
}

func (r *Recorder) follow(ctx context.Context, of resource, late bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.followed[of] != nil || r.unwatched[of.String()] != "" || ctx.Err() != nil {
		return
	}
	f := &follower{recorder: r, of: of, late: late, ready: make(chan struct{})}
	r.followed[of] = f
	r.following.Go(func() { f.run(ctx) })
}

// forget ends the following of a resource, for a reason if it can't be watched, or until it is discovered again.
func (r *Recorder) forget(of resource, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.followed, of)
	if reason != "" {
		r.unwatched[of.String()] = reason
	}
}
