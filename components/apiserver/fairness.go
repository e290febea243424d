package apiserver

import (
	"context"
	"errors"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	flowrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	flowcontrolclient "k8s.io/client-go/kubernetes/typed/flowcontrol/v1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/fairness"
	"quintet.dev/quintet/components/apiserver/server"
)

// priorityAndFairness shares the server's capacity between flows of requests, as flow schemas and priority levels say
// (https://kubernetes.io/docs/concepts/cluster-administration/flow-control/). nil gives all requests the same chance.
type priorityAndFairness struct {
	control flowcontrol.Interface
	// requestWait is how long a request may wait for its turn that has no deadline of its own.
	requestWait time.Duration
	waiting     *fairness.Filter // made by filter
	stats       func(resource string) (storage.Stats, error)
}

func (s *Server) makeFairness() error {
	metrics.Register() // some tell of requests in flight where there is no fairness, too
	if !s.config.PriorityAndFairness {
		return nil
	}
	seats := s.config.MaxRequestsInFlight + s.config.MaxMutatingRequestsInFlight
	if seats <= 0 {
		return errors.New("--max-requests-inflight and --max-mutating-requests-inflight must add up to something positive with --enable-priority-and-fairness")
	}
	client, err := flowcontrolclient.NewForConfig(s.self.client.Config())
	if err != nil {
		return err
	}
	s.fairness = &priorityAndFairness{
		control:     flowcontrol.New(s.self.informers, client, seats),
		requestWait: s.config.RequestTimeout / 4,
		stats:       s.stats,
	}
	return nil
}

// filter makes requests wait for their turn, or sends them away; nil without fairness.
func (f *priorityAndFairness) filter() func(http.Handler) http.Handler {
	if f == nil {
		return nil
	}
	estimate := flowrequest.NewWorkEstimator(f.stats, f.control.GetInterestedWatchCount, flowrequest.DefaultWorkEstimatorConfig(), f.control.GetMaxSeats)
	return func(next http.Handler) http.Handler {
		f.waiting = fairness.New(fairness.Config{Control: f.control, Estimate: estimate, LongRunning: server.LongRunning, Wait: f.requestWait}, next)
		return f.waiting
	}
}

// install serves what operators look at to learn why requests wait.
func (f *priorityAndFairness) install(m *server.Mux) {
	if f == nil {
		return
	}
	dumps := mux.NewPathRecorderMux("priority and fairness")
	f.control.Install(dumps)
	m.Prefix("/debug/api_priority_and_fairness/", dumps)
}

// run follows the configuration until ctx ends.
func (f *priorityAndFairness) run(ctx context.Context, s *self, clk clock.WithTicker) error {
	if f == nil {
		return nil
	}
	s.informers.StartWithContext(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		f.waiting.Run(ctx, clk)
		return nil
	})
	group.Go(func() error {
		if err := f.control.Run(ctx.Done()); err != nil && ctx.Err() == nil { // to be stopped before all is read is no failure
			return err
		}
		return nil
	})
	return group.Wait()
}

// stats tells how large the list of a resource is, by "resource.group".
func (s *Server) stats(resource string) (storage.Stats, error) {
	c := s.cacheOf(schema.ParseGroupResource(resource))
	if c == nil {
		return storage.Stats{}, flowrequest.ObjectCountNotFoundErr
	}
	held := c.Stats()
	stats := storage.Stats{ObjectCount: int64(held.Objects)}
	if held.Objects > 0 {
		stats.EstimatedAverageObjectSizeBytes = held.Bytes / int64(held.Objects)
	}
	return stats, nil
}

// cacheOf finds the cache of a resource in one of its groups, or nil.
func (s *Server) cacheOf(resource schema.GroupResource) *cache.Cache {
	for _, r := range s.table {
		if r.Kind.Resource != resource.Resource || r.Cache == nil {
			continue
		}
		for i := range r.Kind.Versions {
			if r.Kind.Versions[i].Group == resource.Group {
				return r.Cache
			}
		}
	}
	s.custom.mu.Lock()
	defer s.custom.mu.Unlock()
	for kind, c := range s.custom.caches {
		if kind.Resource == resource.Resource && kind.Hub.Group == resource.Group {
			return c
		}
	}
	return nil
}
