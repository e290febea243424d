package server

import (
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"

	"quintet.dev/quintet/internal/exposition"
)

// Exposition is what /metrics shows of the metrics there are.
type Exposition struct {
	exposition.Exposition
	// Resets lets DELETE reset them.
	Resets bool
}

// handler shows the server's own metrics, and those of the process and of the libraries in it, which know one registry
// only. Of two families of a name the first is shown: libraries measure some of what is measured here.
func (m *metrics) handler(registry prometheus.Gatherer, more []prometheus.Gatherer, show Exposition) http.Handler {
	all := append([]prometheus.Gatherer{registry, legacyregistry.DefaultGatherer}, more...)
	gather := func() (map[string]*dto.MetricFamily, error) {
		families := map[string]*dto.MetricFamily{}
		var errs []error
		for i, g := range all {
			found, err := g.Gather()
			errs = append(errs, err)
			for _, f := range found {
				if families[f.GetName()] != nil || show.Omits(f) {
					continue
				}
				if i == 0 {
					f = staged(f)
				}
				families[f.GetName()] = f
			}
		}
		return families, errors.Join(errs...)
	}
	shown := promhttp.HandlerFor(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := gather()
		for name, f := range families {
			families[name] = m.resets.since(f)
		}
		return show.Limit(families), err
	}), promhttp.HandlerOpts{ProcessStartTime: m.started})
	if !show.Resets {
		return shown
	}
	return m.resets.handle(gather, shown)
}
