package apiserver

import (
	"strings"

	apiversion "k8s.io/apimachinery/pkg/version"

	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/internal/release"
)

// version tells of the release, and that it behaves as none but itself; by default it works with what the one before it
// has written.
func version(config options.Config) apiversion.Info {
	v := release.Get()
	v.EmulationMajor, v.EmulationMinor = v.Major, v.Minor
	v.MinCompatibilityMajor, v.MinCompatibilityMinor, _ = strings.Cut(config.MinCompatibility, ".")
	return v
}
