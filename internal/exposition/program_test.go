package exposition

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"k8s.io/component-base/featuregate"
)

func text(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// TestCounts: metrics are counted by stability, also those without values, and those that are left out.
func TestCounts(t *testing.T) {
	registry := prometheus.NewRegistry()
	add := func(name, help string) {
		registry.MustRegister(prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"a"}))
	}
	add("one_total", "[STABLE] One.")
	add("two_total", "[STABLE] Two.")
	add("three_total", "[ALPHA] Three.")
	add("old_total", "[ALPHA] (Deprecated since 1.30.0) Old.")
	add("library_total", "Has no stability.")
	shown := text(t, (&Exposition{Minor: 36, Disabled: []string{"two_total"}}).Of(registry))
	for _, want := range []string{
		`registered_metrics_total{deprecated_version="",stability_level="STABLE"} 2`,
		`registered_metrics_total{deprecated_version="",stability_level="ALPHA"} 1`,
		`registered_metrics_total{deprecated_version="1.30.0",stability_level="ALPHA"} 1`,
		"disabled_metrics_total 1", "hidden_metrics_total 1",
	} {
		if !strings.Contains(shown, want+"\n") {
			t.Errorf("no %s in\n%s", want, shown)
		}
	}
	if strings.Contains(shown, "STABLE\"} 3") {
		t.Errorf("the counts count themselves:\n%s", shown)
	}
}

// TestFeatures: a feature is 1 or 0 by what its gate is now.
func TestFeatures(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(Features(map[featuregate.Feature]featuregate.FeatureSpec{
		"On": {Default: true, PreRelease: featuregate.Beta}, "Off": {PreRelease: featuregate.Alpha}}), BuildInfo())
	shown := text(t, registry)
	for _, want := range []string{`kubernetes_feature_enabled{name="On",stage="BETA"} 1`,
		`kubernetes_feature_enabled{name="Off",stage="ALPHA"} 0`, "kubernetes_build_info{"} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %s in\n%s", want, shown)
		}
	}
}
