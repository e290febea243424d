// Package gates knows the feature gates of the release
// (https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/). They are no switches here: what is
// built is what the release does by default. So a gate may be set to what it is, as the command lines of others do, and
// setting it to anything else is an error that names it.
package gates

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/component-base/featuregate"
)

// release lists the gates of kube-apiserver 1.36, as its metric kubernetes_feature_enabled tells them: name, stage, default,
// and "locked" if it can't be set to anything else.
//
//go:embed gates.txt
var release string

// Check returns what is wrong with setting gates like this; AllAlpha and AllBeta stand for all of their stage.
func Check(set map[string]bool) error {
	if len(set) == 0 {
		return nil
	}
	gate := featuregate.NewFeatureGate()
	known := All()
	if err := errors.Join(gate.Add(known), gate.SetFromMap(set)); err != nil {
		return err
	}
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if on := gate.Enabled(name); on != known[name].Default {
			changed = append(changed, fmt.Sprintf("%s=%v", name, on))
		}
	}
	if len(changed) > 0 {
		return fmt.Errorf("--feature-gates: not supported, as features are what they are by default: %s", strings.Join(changed, ","))
	}
	return nil
}

// All returns the gates of the release; their defaults are what they are.
func All() map[featuregate.Feature]featuregate.FeatureSpec {
	out := map[featuregate.Feature]featuregate.FeatureSpec{}
	for line := range strings.Lines(release) {
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
