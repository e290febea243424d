package apiserver

import (
	"context"
	"errors"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	flowrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	flowcontrolclient "k8s.io/client-go/kubernetes/typed/flowcontrol/v1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/fairness"
	"quintet.dev/quintet/components/apiserver/objects/informers"
	"quintet.dev/quintet/components/apiserver/server"
)

// priorityAndFairness shares the server's capacity between flows of requests, as flow schemas and priority levels say
// (https://kubernetes.io/docs/concepts/cluster-administration/flow-control/). nil gives all requests the same chance.
type priorityAndFairness struct {
	control flowcontrol.Interface
	// requestWait is how long a request may wait for its turn that has no deadline of its own.
	requestWait time.Duration
	waiting     *fairness.Filter // made by filter
	estimate    flowrequest.WorkEstimatorFunc
	informers   *informers.Factory
}

// newFairness makes it; nil without.
func newFairness(b *base, r *kindRegistry, c *catalog) (*priorityAndFairness, error) {
	metrics.Register() // some tell of requests in flight where there is no fairness, too
	if !b.config.PriorityAndFairness {
		return nil, nil
	}
	seats := b.config.MaxRequestsInFlight + b.config.MaxMutatingRequestsInFlight
	if seats <= 0 {
		return nil, errors.New("--max-requests-inflight and --max-mutating-requests-inflight must add up to " +
			"something positive with --enable-priority-and-fairness")
	}
	client, err := flowcontrolclient.NewForConfig(b.loopback.Config())
	if err != nil {
		return nil, err
	}
	f := &priorityAndFairness{control: flowcontrol.New(r.informers, client, seats), informers: r.informers}
	f.estimate = flowrequest.NewWorkEstimator(c.listSize, f.control.GetInterestedWatchCount,
		flowrequest.DefaultWorkEstimatorConfig(), f.control.GetMaxSeats)
	f.requestWait = b.config.RequestTimeout / 4
	return f, nil
}

// filter makes requests wait for their turn, or sends them away; nil without fairness.
func (f *priorityAndFairness) filter() func(http.Handler) http.Handler {
	if f == nil {
		return nil
	}
	return func(next http.Handler) http.Handler {
		f.waiting = fairness.New(fairness.Config{
			Control: f.control, Estimate: f.estimate, LongRunning: server.LongRunning, Wait: f.requestWait,
		}, next)
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
func (f *priorityAndFairness) run(ctx context.Context, clk clock.WithTicker) error {
	if f == nil {
		return nil
	}
	f.informers.StartWithContext(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		f.waiting.Run(ctx, clk)
		return nil
	})
	group.Go(func() error {
		// To be stopped before all is read is no failure.
		if err := f.control.Run(ctx.Done()); err != nil && ctx.Err() == nil {
			return err
		}
		return nil
	})
	return group.Wait()
}
