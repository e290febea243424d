package exposition

import (
	"runtime"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/featuregate"

	"quintet.dev/quintet/internal/release"
)

// BuildInfo is the metric of what the program was built from.
func BuildInfo() prometheus.Collector {
	info := release.Get()
	m := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kubernetes_build_info", Help: "[BETA] What the program was built from, and for what.",
	}, []string{"major", "minor", "git_version", "git_commit", "git_tree_state", "build_date", "go_version", "compiler",
		"platform"})
	m.WithLabelValues(info.Major, info.Minor, info.GitVersion, info.GitCommit, info.GitTreeState, info.BuildDate,
		runtime.Version(), runtime.Compiler, runtime.GOOS+"/"+runtime.GOARCH).Set(1)
	return m
}

// Features is the metric of which features are on, those whose default is so in gates.
func Features(gates map[featuregate.Feature]featuregate.FeatureSpec) prometheus.Collector {
	m := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kubernetes_feature_enabled", Help: "[BETA] Which features are on (1) and off (0), by name and stage.",
	}, []string{"name", "stage"})
	for name, spec := range gates {
		on := 0.0
		if spec.Default {
			on = 1
		}
		m.WithLabelValues(string(name), string(spec.PreRelease)).Set(on)
	}
	return m
}

// description is what a metric was registered with.
type description struct{ name, help string }

// described are the metrics of a registry, also those that have no values yet; none of what can't tell.
func described(g prometheus.Gatherer) []description {
	c, ok := g.(prometheus.Collector)
	if !ok {
		return nil
	}
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		c.Describe(descs)
	}()
	var all []description
	for d := range descs {
		text := d.String() // which is the only way to learn of them
		all = append(all, description{between(text, `fqName: "`, `"`), between(text, `help: "`, `", constLabels`)})
	}
	return all
}

func between(text, from, to string) string {
	_, text, _ = strings.Cut(text, from)
	text, _, _ = strings.Cut(text, to)
	return text
}

// counts are upstream's metrics of the registered metrics: by stability, as the help begins with it, and how many of
// them aren't shown.
func (e *Exposition) counts(g prometheus.Gatherer) []*dto.MetricFamily {
	registered := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "registered_metrics_total",
		Help: "[BETA] Registered metrics by their stability and the release that deprecated them."},
		[]string{"stability_level", "deprecated_version"})
	disabled := prometheus.NewCounter(prometheus.CounterOpts{Name: "disabled_metrics_total",
		Help: "[BETA] Registered metrics that are left out by --disabled-metrics."})
	hidden := prometheus.NewCounter(prometheus.CounterOpts{Name: "hidden_metrics_total",
		Help: "[BETA] Registered metrics that are left out as they are deprecated."})
	for _, d := range described(g) {
		level, ok := stability(d.help)
		if !ok {
			continue // of a library that has none
		}
		registered.WithLabelValues(level, between(d.help, "(Deprecated since ", ")")).Inc()
		switch {
		case slices.Contains(e.Disabled, d.name):
			disabled.Inc()
		case e.hides(d.help):
			hidden.Inc()
		}
	}
	own := prometheus.NewRegistry()
	own.MustRegister(registered, disabled, hidden)
	families, err := own.Gather()
	if err != nil {
		return nil // can't be: they are well-formed
	}
	return families
}

func stability(help string) (string, bool) {
	level := between(help, "[", "]")
	return level, strings.HasPrefix(help, "[") && slices.Contains([]string{"ALPHA", "BETA", "STABLE", "INTERNAL"}, level)
}
