package apiserver

import (
	"github.com/prometheus/client_golang/prometheus"
	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	proxymetrics "k8s.io/apiserver/pkg/util/proxy/metrics"
	basemetrics "k8s.io/component-base/metrics"
	_ "k8s.io/component-base/metrics/prometheus/restclient" // counts the requests of clients

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/metrics"
	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/server"
)

// measures are the registries of metrics, and what is shown of them.
type measures struct {
	registry   *prometheus.Registry
	library    basemetrics.KubeRegistry // of those that libraries want to register their way
	exposition server.Exposition
}

// newMeasures registers the metrics of the program.
func newMeasures(config options.Config, on *gates.Gates) (measures, error) {
	shown, err := newExposition(&config)
	if err != nil {
		return measures{}, err
	}
	endpointmetrics.Register()
	proxymetrics.Register()
	m := measures{
		registry: prometheus.NewRegistry(), library: basemetrics.NewKubeRegistry(), exposition: shown,
	}
	return m, metrics.Program(m.registry, version(config), on.All())
}

// newExposition reads what is to be shown of the metrics.
func newExposition(c *options.Config) (server.Exposition, error) {
	shown, err := c.Metrics.Exposition()
	return server.Exposition{Exposition: shown, Resets: c.Profiling.On}, err
}
