package exposition

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
)

// shown is what a component shows of a few metrics with flags.
func shown(t *testing.T, flags ...string) (string, error) {
	t.Helper()
	registry := prometheus.NewRegistry()
	asked := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "asked", Help: "Asked."}, []string{"by"})
	old := prometheus.NewCounter(prometheus.CounterOpts{Name: "old", Help: "(Deprecated since 1.35.0) Old."})
	registry.MustRegister(asked, old)
	for _, by := range []string{"joe", "ann", "eve"} {
		asked.WithLabelValues(by).Inc()
	}
	var f Flags
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.AddFlags(fs)
	if err := fs.Parse(flags); err != nil {
		return "", err
	}
	e, err := f.Exposition()
	if err != nil {
		return "", err
	}
	families, err := e.Of(registry).Gather()
	var lines []string
	for _, family := range families {
		if name := family.GetName(); name == "disabled_metrics_total" || name == "hidden_metrics_total" {
			continue // which TestCounts looks at
		}
		for _, m := range family.Metric {
			line := family.GetName()
			for _, l := range m.Label {
				line += " " + l.GetValue()
			}
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, ";"), err
}

// TestFlags: what they leave out, limit and show.
func TestFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "labels.yaml")
	if err := os.WriteFile(file, []byte("asked,by: eve\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[string]string{
		"":                                        "asked ann;asked eve;asked joe",
		"--disabled-metrics=asked":                "",
		"--show-hidden-metrics-for-version=1.35":  "asked ann;asked eve;asked joe;old",
		"--allow-metric-labels=asked,by=joe":      "asked unexpected;asked joe",
		"--allow-metric-labels-manifest=" + file:  "asked unexpected;asked eve",
		"--show-hidden-metrics-for-version=1.34":  "error",
		"--allow-metric-labels-manifest=/no/file": "error",
		"--allow-metric-labels=asked=x":           "error",
		"--allow-metric-labels-manifest=" + file + " --allow-metric-labels=asked,by=x": "error",
	} {
		got, err := shown(t, strings.Fields(flags)...)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %s (%v), want %s", flags, got, err, want)
		}
	}
}
