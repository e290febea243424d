package apiserver

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	proxymetrics "k8s.io/apiserver/pkg/util/proxy/metrics"
	basemetrics "k8s.io/component-base/metrics"
	_ "k8s.io/component-base/metrics/prometheus/restclient" // counts the requests of clients
	"sigs.k8s.io/yaml"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/metrics"
	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/server"
	"quintet.dev/quintet/internal/release"
)

// measures are the registries of metrics, and what is shown of them.
type measures struct {
	registry   *prometheus.Registry
	library    basemetrics.KubeRegistry // of those that libraries want to register their way
	exposition server.Exposition
}

// newMeasures registers the metrics of the program.
func newMeasures(config options.Config, on *gates.Gates) (measures, error) {
	exposition, err := newExposition(&config)
	if err != nil {
		return measures{}, err
	}
	endpointmetrics.Register()
	proxymetrics.Register()
	m := measures{
		registry: prometheus.NewRegistry(), library: basemetrics.NewKubeRegistry(), exposition: exposition,
	}
	return m, metrics.Program(m.registry, version(config), on.All())
}

// newExposition reads what is to be shown of the metrics.
func newExposition(c *options.Config) (none server.Exposition, err error) {
	minor, err := strconv.Atoi(release.Get().Minor)
	if err != nil {
		return none, err
	}
	if before := fmt.Sprintf("1.%d", minor-1); c.ShowHiddenMetrics != "" && c.ShowHiddenMetrics != before {
		return none, fmt.Errorf("--show-hidden-metrics-for-version must be omitted or have the value '%s'. "+
			"Only the previous minor version is allowed", before)
	}
	allowed := c.MetricLabels
	if c.MetricLabelsFile != "" {
		if c.MetricLabels != nil {
			return none, errors.New("--allow-metric-labels and --allow-metric-labels-manifest exclude each other")
		}
		text, err := os.ReadFile(c.MetricLabelsFile)
		if err != nil {
			return none, fmt.Errorf("--allow-metric-labels-manifest: %w", err)
		}
		if err := yaml.UnmarshalStrict(text, &allowed); err != nil {
			return none, fmt.Errorf("--allow-metric-labels-manifest: %s: %w", c.MetricLabelsFile, err)
		}
	}
	if c.ShowHiddenMetrics != "" {
		basemetrics.SetShowHidden() // libraries hide their own
	}
	labels, err := server.ParseLabels(allowed)
	if err != nil {
		return none, fmt.Errorf("--allow-metric-labels: %w", err)
	}
	return server.Exposition{
		Disabled: c.DisabledMetrics, Labels: labels,
		Minor: minor, Hidden: c.ShowHiddenMetrics != "", Resets: c.Profiling.On,
	}, nil
}
