package exposition

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/pflag"
	basemetrics "k8s.io/component-base/metrics"
	"sigs.k8s.io/yaml"

	"quintet.dev/quintet/internal/release"
)

// Flags are the values of upstream's flags.
type Flags struct {
	Disabled   []string          // names
	Labels     map[string]string // values that labels keep, separated by commas, by metric,label
	LabelsFile string            // the same in YAML
	ShowHidden string            // the release before this, to show what was deprecated in it
}

// AddFlags binds upstream's flags.
func (f *Flags) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.Disabled, "disabled-metrics", nil, "Names of metrics that are left out.")
	fs.StringToStringVar(&f.Labels, "allow-metric-labels", nil,
		"Values that labels of metrics keep, others become \"unexpected\": metric,label='value,value'.")
	fs.StringVar(&f.LabelsFile, "allow-metric-labels-manifest", "",
		"YAML file with what --allow-metric-labels would say.")
	fs.StringVar(&f.ShowHidden, "show-hidden-metrics-for-version", "",
		"Release before this one, as 1.35, to show metrics that were deprecated in it.")
}

// Exposition reads the file and checks all. An error names the flag.
func (f *Flags) Exposition() (none Exposition, err error) {
	minor, err := strconv.Atoi(release.Get().Minor)
	if err != nil {
		return none, err
	}
	if before := fmt.Sprintf("1.%d", minor-1); f.ShowHidden != "" && f.ShowHidden != before {
		return none, fmt.Errorf("--show-hidden-metrics-for-version must be omitted or have the value '%s'. "+
			"Only the previous minor version is allowed", before)
	}
	allowed := f.Labels
	if f.LabelsFile != "" {
		if f.Labels != nil {
			return none, errors.New("--allow-metric-labels and --allow-metric-labels-manifest exclude each other")
		}
		text, err := os.ReadFile(f.LabelsFile)
		if err != nil {
			return none, fmt.Errorf("--allow-metric-labels-manifest: %w", err)
		}
		if err := yaml.UnmarshalStrict(text, &allowed); err != nil {
			return none, fmt.Errorf("--allow-metric-labels-manifest: %s: %w", f.LabelsFile, err)
		}
	}
	if f.ShowHidden != "" {
		basemetrics.SetShowHidden() // libraries hide their own
	}
	labels, err := ParseLabels(allowed)
	if err != nil {
		return none, fmt.Errorf("--allow-metric-labels: %w", err)
	}
	return Exposition{Disabled: f.Disabled, Labels: labels, Minor: minor, Hidden: f.ShowHidden != ""}, nil
}
