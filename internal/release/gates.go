package release

import (
	_ "embed"
	"strings"

	"k8s.io/component-base/featuregate"
)

// gates lists the feature gates of the release, as the metric kubernetes_feature_enabled tells them: name, stage,
// default, and "locked" if it can't be set to anything else. All control plane programs have the same.
//
//go:embed gates.txt
var gates string

// Gates returns the feature gates of the release with their defaults; the map belongs to the caller.
func Gates() map[featuregate.Feature]featuregate.FeatureSpec {
	out := map[featuregate.Feature]featuregate.FeatureSpec{}
	for line := range strings.Lines(gates) {
		fields := strings.Fields(line)
		spec := featuregate.FeatureSpec{Default: fields[2] == "true", LockToDefault: len(fields) > 3}
		switch fields[1] {
		case "ALPHA":
			spec.PreRelease = featuregate.Alpha
		case "BETA":
			spec.PreRelease = featuregate.Beta
		case "DEPRECATED":
			spec.PreRelease = featuregate.Deprecated
		}
		out[featuregate.Feature(fields[0])] = spec
	}
	return out
}
