// Package release tells which Kubernetes the programs are.
package release

import (
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"

	apiutil "k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/version"
)

// fallback is the release of the modules that the API's types come from, for programs that no release was stamped into.
const fallback = "v1.36.6"

// reported is the version that the command line of the process gave; nil for none. It belongs to the process, as what
// is linked into it does.
var reported atomic.Pointer[string]

// own is the version of this project that was stamped into the program.
var own string

// Own returns the version of this project that the program is of: what was stamped into it, or else what Go knows of
// it; "devel" where neither says.
func Own() string {
	if own != "" {
		return own
	}
	return ownOf(debug.ReadBuildInfo)
}

func ownOf(build func() (*debug.BuildInfo, bool)) string {
	const module = "quintet.dev/quintet"
	info, ok := build()
	if !ok {
		return "devel"
	}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path == module && m.Replace == nil && strings.HasPrefix(m.Version, "v") {
			return m.Version
		}
	}
	return "devel"
}

// Get returns what was stamped into the program when it was linked (see the Makefile), or else what Go knows of it.
func Get() apiversion.Info {
	info := complete(version.Get(), debug.ReadBuildInfo)
	if text := reported.Load(); text != nil {
		info.GitVersion = *text
	}
	return info
}

// Report changes the version that the process reports from now on. As with upstream's --version
// flag that may only say more of the same release: v1.36.6-custom of v1.36.6.
func Report(text string) error {
	asked, err := apiutil.ParseSemantic(text)
	if err != nil {
		return err
	}
	own, err := apiutil.ParseSemantic(Get().GitVersion)
	if err != nil {
		return err
	}
	if asked.Major() != own.Major() || asked.Minor() != own.Minor() || asked.Patch() != own.Patch() {
		return fmt.Errorf("version %q must match major/minor/patch of default version %q", text, Get().GitVersion)
	}
	reported.Store(&text)
	return nil
}

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
