package apiserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"time"

	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	proxymetrics "k8s.io/apiserver/pkg/util/proxy/metrics"
	basemetrics "k8s.io/component-base/metrics"
	_ "k8s.io/component-base/metrics/prometheus/restclient" // counts the requests of clients
	"k8s.io/pod-security-admission/api"
	podsecurity "k8s.io/pod-security-admission/metrics"
	"sigs.k8s.io/yaml"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/metrics"
	"quintet.dev/quintet/components/apiserver/server"
	"quintet.dev/quintet/components/apiserver/storage/etcd"
	"quintet.dev/quintet/internal/release"
)

// makeExposition reads what is to be shown of the metrics.
func (s *Server) makeExposition() error {
	c := &s.config
	minor, err := strconv.Atoi(release.Get().Minor)
	if err != nil {
		return err
	}
	if before := fmt.Sprintf("1.%d", minor-1); c.ShowHiddenMetrics != "" && c.ShowHiddenMetrics != before {
		return fmt.Errorf("--show-hidden-metrics-for-version must be omitted or have the value '%s'. Only the previous minor version is allowed", before)
	}
	allowed := c.MetricLabels
	if c.MetricLabelsFile != "" {
		if c.MetricLabels != nil {
			return errors.New("--allow-metric-labels and --allow-metric-labels-manifest exclude each other")
		}
		text, err := os.ReadFile(c.MetricLabelsFile)
		if err != nil {
			return fmt.Errorf("--allow-metric-labels-manifest: %w", err)
		}
		if err := yaml.UnmarshalStrict(text, &allowed); err != nil {
			return fmt.Errorf("--allow-metric-labels-manifest: %s: %w", c.MetricLabelsFile, err)
		}
	}
	if c.ShowHiddenMetrics != "" {
		basemetrics.SetShowHidden() // libraries hide their own
	}
	labels, err := server.ParseLabels(allowed)
	if err != nil {
		return fmt.Errorf("--allow-metric-labels: %w", err)
	}
	s.exposition = server.Exposition{Disabled: c.DisabledMetrics, Labels: labels, Minor: minor, Hidden: c.ShowHiddenMetrics != "", Resets: c.Profiling.On}
	return nil
}

// makeMeasures makes the metrics of the store and of the program, and makes the store measured.
func (s *Server) makeMeasures() error {
	endpointmetrics.Register()
	proxymetrics.Register()
	calls := metrics.NewCalls(s.registry, s.resourceOf())
	for _, p := range s.places {
		p.store = calls.Of(p.store)
	}
	caches := &metrics.Caches{List: s.cacheStats, NoCounts: s.config.CountPeriod < 0}
	return errors.Join(
		s.registry.Register(caches),
		s.registry.Register(&s.sizes),
		metrics.Program(s.registry, s.version(), s.gates.All()),
	)
}

// podSecurity counts what the admission of pods by security level decides, in a registry of the library's kind.
func (s *Server) podSecurity() podsecurity.Recorder {
	recorder := podsecurity.NewPrometheusRecorder(api.GetAPIVersion())
	recorder.MustRegister(s.library.MustRegister)
	return recorder
}

func (s *Server) cacheStats() []metrics.CacheStats {
	var out []metrics.CacheStats
	add := func(kind *kinds.Kind, c *cache.Cache) {
		if kind.Virtual() {
			return // nothing of it is stored
		}
		stats := c.Stats()
		out = append(out, metrics.CacheStats{
			Resource: kind.Hub.WithResource(kind.Resource).GroupResource(), Objects: stats.Objects, Bytes: stats.Bytes,
			Revision: stats.Revision, Events: stats.Events, Capacity: stats.Capacity,
			Direct: stats.Direct, Counts: c.Counts(),
		})
	}
	for _, r := range s.table {
		if r.Cache != nil {
			add(r.Kind, r.Cache)
		}
	}
	s.custom.mu.Lock()
	defer s.custom.mu.Unlock()
	for kind, c := range s.custom.caches {
		add(kind, c)
	}
	return out
}

// watchSize asks etcd from time to time how large it is, until ctx ends.
func (s *Server) watchSize(ctx context.Context) error {
	if _, ok := s.places[0].opened.(*etcd.Store); !ok || s.config.EtcdSizePeriod < 0 {
		return nil
	}
	ticker := s.config.Clock.NewTicker(s.config.EtcdSizePeriod)
	defer ticker.Stop()
	for {
		stores, members := map[string]int64{}, map[string]int64{}
		for i, p := range s.places {
			asking, cancel := context.WithTimeout(ctx, sizeTimeout)
			size := p.opened.(*etcd.Store).Size(asking)
			cancel()
			if size.Bytes >= 0 {
				stores["etcd-"+strconv.Itoa(i)] = size.Bytes // upstream's name
			}
			maps.Copy(members, size.Members)
		}
		s.sizes.Set(stores, members)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// sizeTimeout bounds the question for the size of etcd.
const sizeTimeout = 10 * time.Second
