package metricsserver

import (
	"context"
	"errors"
	"net/http"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/internal/delegated"
	"quintet.dev/quintet/internal/diagnostics"
	"quintet.dev/quintet/internal/health"
	"quintet.dev/quintet/internal/zpages"
)

// serve starts the server of the API and of what operators ask.
func (m *MetricsServer) serve(ctx context.Context, group *errgroup.Group) error {
	c := &m.config
	listener, err := m.listen()
	if err != nil {
		return err
	}
	gate, err := delegated.New(ctx, c.Access, c.Clock)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	gate.RequestInfo = &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("apis")}
	a := (&api{nodes: m.nodes, pods: m.pods, state: m.state.Load, clock: c.Clock, metrics: m.metrics}).handler()
	informed := health.Check{Name: "metadata-informer-sync", Probe: m.informed}
	timely := health.Check{Name: "metric-collection-timely", Probe: m.timely}
	server := &diagnostics.Server{
		Listener: listener, Gate: gate, Metrics: m.metrics.registry, Certificate: m.serving, Serving: c.Serving,
		Health: []health.Check{health.Ping(), timely, informed},
		Live:   []health.Check{health.Ping(), timely},
		Ready: []health.Check{health.Ping(), {Name: "metric-storage-ready", Probe: m.stored}, informed,
			{Name: "shutdown", Probe: func(*http.Request) error { return ctx.Err() }}},
		More:    map[string]http.Handler{"/apis": a, "/apis/": a},
		Program: zpages.New("metrics-server", c.Clock.Now, c.CommandLine),
	}
	group.Go(func() error { return server.Run(ctx) })
	return nil
}
