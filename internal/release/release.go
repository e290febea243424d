// Package release tells which Kubernetes the programs are.
package release

import (
	"runtime/debug"
	"strings"

	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/version"
)

// fallback is the release of the modules that the API's types come from, for programs that no release was stamped into.
const fallback = "v1.36.6"

// Get returns what was stamped into the program when it was linked (see the Makefile), or else what Go knows of it.
func Get() apiversion.Info { return complete(version.Get(), debug.ReadBuildInfo) }

func complete(info apiversion.Info, build func() (*debug.BuildInfo, bool)) apiversion.Info {
	if !strings.HasPrefix(info.GitVersion, "v1.") {
		info.GitVersion = fallback
	}
	parts := strings.SplitN(strings.TrimPrefix(info.GitVersion, "v"), ".", 3)
	info.Major, info.Minor = parts[0], parts[1]
	if strings.Contains(info.GitCommit, "$") {
		info.GitCommit = "unknown"
	}
	if info.GitTreeState == "" || strings.Contains(info.GitTreeState, "$") {
		info.GitTreeState = "unknown"
	}
	if b, ok := build(); ok && info.GitCommit == "unknown" {
		for _, s := range b.Settings {
			switch s.Key {
			case "vcs.revision":
				info.GitCommit = s.Value
			case "vcs.time":
				info.BuildDate = s.Value
			case "vcs.modified":
				info.GitTreeState = map[string]string{"true": "dirty", "false": "clean"}[s.Value]
			}
		}
	}
	return info
}
