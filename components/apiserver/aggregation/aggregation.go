// Package aggregation lets other servers serve group versions of the API
// (https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/apiserver-aggregation/). An APIService names the
// server of a group version. Those of this server's own group versions are written here; the Services of the others are
// checked, included in discovery and OpenAPI, and requests are proxied to them.
package aggregation

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/webhook"
	basemetrics "k8s.io/component-base/metrics"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/egress"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/components/apiserver/openapi"
	"quintet.dev/quintet/internal/repeat"
)

// Config of an Aggregator.
type Config struct {
	// Objects reaches APIServices, Services and EndpointSlices.
	Objects objects.Store
	// Whole lists APIServices, and fails while one of them can't be read; nil is Objects, which leaves such out.
	Whole objects.Reader
	// Services resolves the endpoints of a Service; it is called for each request.
	Services webhook.ServiceResolver
	// ClientCertFile and ClientKeyFile are PEM files that prove to extension servers that a request comes through this
	// server. They are read again when they change. Both may be empty; the servers then believe nothing of what they
	// are told.
	ClientCertFile, ClientKeyFile string
	// Dial connects to extension servers; nil does so straight.
	Dial egress.Dial
	// Traced makes extension servers told of the spans that requests are part of; nil leaves them untold.
	Traced func(http.RoundTripper) http.RoundTripper
	// PassRedirects sends clients where an extension server says, instead of refusing that.
	PassRedirects bool
	// NoUIDs leaves extension servers untold of the UIDs of users.
	NoUIDs bool
	// Changed is told, one call at a time, of what clients are to know.
	Changed func(View)
	// Library registers the metrics of libraries; nil doesn't expose them.
	Library basemetrics.KubeRegistry
	// Writers is how many APIServices are written at a time; 0 is one.
	Writers int
	Clock   clock.WithTicker
}

// View is what discovery and OpenAPI tell besides the kinds that are served here. It is immutable.
type View struct {
	// Services are all APIServices, also those that are about to be written, in no order.
	Services []*apiregistrationv1.APIService
	// Own are the APIServices of this server's own groups as it registers them, even where they were changed or
	// deleted.
	Own []*apiregistrationv1.APIService
	// Removed are group versions that are served here, though their APIService was deleted: the plain lists of groups
	// and versions, which upstream makes of APIServices, leave them out until this server restarts.
	Removed map[schema.GroupVersion]bool
	// Elsewhere describes the group versions that others serve, and Sources documents them.
	Elsewhere map[schema.GroupVersion]*apidiscoveryv2.APIVersionDiscovery
	Sources   []openapi.Source
}

type apiService = apiregistrationv1.APIService

var (
	resource       = schema.GroupResource{Group: apiregistrationv1.GroupName, Resource: "apiservices"}
	services       = corev1.Resource("services")
	endpointSlices = discoveryv1.Resource("endpointslices")
	watched        = []schema.GroupResource{services, endpointSlices}
)

// Aggregator joins this server's group versions with those of others.
type Aggregator struct {
	config    Config
	identity  *identity
	metrics   metrics
	loop      *repeat.Loop
	routes    atomic.Pointer[routes]
	lifecycle *lifecycle

	mu      sync.Mutex             // held while Changed is called
	own     map[string]*apiService // of what is served here; replaced, never changed
	seen    []*apiService          // by the last pass that could read all
	lacking bool                   // the last pass could not
	had     map[string]bool        // by name: ever found by a pass

	// The rest belongs to passes, which Sync and Run make one after the other.
	atStart, settled map[string]bool // by name: stored before this server's first pass; brought into line since
	remotes          map[string]*remote
}

// New makes an aggregator that serves nothing yet. It fails when the client certificate can't be read.
func New(config Config) (*Aggregator, error) {
	id, err := newIdentity(config.ClientCertFile, config.ClientKeyFile, config.Clock)
	if err != nil {
		return nil, err
	}
	if config.Whole == nil {
		config.Whole = config.Objects
	}
	if config.Library == nil {
		config.Library = basemetrics.NewKubeRegistry()
	}
	a := &Aggregator{
		config: config, identity: id, metrics: newMetrics(config.Library), loop: repeat.New("synchronize APIServices",
			config.Clock, retryPause),
		lifecycle: newLifecycle(),
		had:       map[string]bool{}, settled: map[string]bool{}, remotes: map[string]*remote{},
	}
	a.routes.Store(&routes{})
	return a, nil
}

// Serve says what this server serves itself. Changed is called before it returns; APIServices follow.
func (a *Aggregator) Serve(table []*api.Kind, defined []schema.GroupVersion) error {
	a.mu.Lock()
	a.own = registrations(table, defined)
	a.mu.Unlock()
	a.loop.Wake()
	return a.tell()
}

// Sync writes the APIServices of what this server serves itself, and begins to pass on requests for the others. It is
// called before Run, so that a server isn't ready without them; until all can be read and written it tries again.
func (a *Aggregator) Sync(ctx context.Context) error { return a.loop.Until(ctx, a.pass) }

// retryPause is how long a pass that failed waits for the next.
const retryPause = time.Second

// Run follows the APIServices until ctx ends. It is called once.
func (a *Aggregator) Run(ctx context.Context) error {
	defer a.lifecycle.finish()
	w := &watch{owner: a}
	defer w.end()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		a.identity.run(ctx, a.loop.Wake)
		return nil
	})
	group.Go(func() error {
		return a.config.Objects.Feed(ctx, resource, func(_, _ api.Object) { a.loop.Wake() }, func() {})
	})
	a.loop.Wake()
	group.Go(func() error {
		a.loop.Run(ctx, nil, func(ctx context.Context) error {
			defer func() { w.keep(ctx, a.remotes) }()
			return a.pass(ctx)
		})
		return nil
	})
	return group.Wait()
}

// pass brings what is stored of this server, and what is known of others, up to date. While an APIService can't be
// read, all stays as it was: what can't be read is not taken for what isn't there.
func (a *Aggregator) pass(ctx context.Context) error {
	stored, err := objects.ListAs[*apiService](a.config.Whole.List(ctx, resource, ""))
	a.mu.Lock()
	own := a.own
	if a.lacking = err != nil; !a.lacking {
		a.seen = stored
		for _, s := range stored {
			a.had[s.Name] = true
		}
	}
	a.mu.Unlock()
	if err != nil {
		return errors.Join(err, a.tell())
	}
	problem := a.register(ctx, stored, own)
	a.follow(stored)
	return errors.Join(problem, a.restoreStatus(ctx, stored), a.tell())
}

// known are all APIServices, as long as they can be read, or what they were before. It is called with mu held.
func (a *Aggregator) known() ([]*apiService, error) {
	if a.lacking {
		return slices.Clone(a.seen), nil
	}
	return objects.ListAs[*apiService](a.config.Objects.List(context.Background(), resource, "")) // from memory
}

// follow makes remotes of the APIServices that name a Service, and gives up those that are no more as they were.
func (a *Aggregator) follow(stored []*apiService) {
	pair := a.identity.now.Load()
	remotes, table := map[string]*remote{}, routes{}
	for _, s := range stored {
		if s.Spec.Service == nil {
			continue
		}
		r := a.remotes[s.Name]
		if former := r; former == nil || former.pair != pair || !reflect.DeepEqual(former.spec, &s.Spec) {
			r = a.newRemote(s, pair)
			r.copyState(former)
		}
		r.contest(s)
		remotes[s.Name] = r
		table[r.groupVersion()] = route{r, helper.IsAPIServiceConditionTrue(s, apiregistrationv1.Available)}
	}
	a.remotes = remotes
	a.routes.Store(&table)
}

// tell calls Changed with what is stored and what will be.
func (a *Aggregator) tell() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	all, err := a.known()
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(all))
	for _, s := range all {
		known[s.Name] = true
	}
	view := View{Removed: map[schema.GroupVersion]bool{}, Elsewhere: a.Elsewhere()}
	for name, s := range a.own {
		view.Own = append(view.Own, s)
		switch {
		case known[name]:
		case a.had[name] && s.Labels[managed] == onStart && s.Spec.Group != "":
			view.Removed[schema.GroupVersion{Group: s.Spec.Group, Version: s.Spec.Version}] = true
		default:
			all = append(all, s)
		}
	}
	view.Services = all
	for _, to := range *a.routes.Load() {
		view.Sources = append(view.Sources, to)
	}
	byPriority(view.Sources, all)
	a.config.Changed(view)
	return nil
}

// byPriority puts those of the more important groups first: where two mean different things by a name, the first keeps
// it.
func byPriority(sources []openapi.Source, all []*apiService) {
	groups := map[string]int32{}
	for _, s := range all {
		if s.Spec.Service != nil {
			groups[s.Spec.Group] = max(groups[s.Spec.Group], s.Spec.GroupPriorityMinimum)
		}
	}
	slices.SortFunc(sources, func(a, b openapi.Source) int {
		x, y := a.GroupVersion(), b.GroupVersion()
		return cmp.Or(cmp.Compare(groups[y.Group], groups[x.Group]),
			cmp.Compare(x.Version+"."+x.Group, y.Version+"."+y.Group))
	})
}
