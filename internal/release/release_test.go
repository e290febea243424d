package release

import (
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	apiversion "k8s.io/apimachinery/pkg/version"
)

func TestComplete(t *testing.T) {
	unstamped := apiversion.Info{GitVersion: "v0.0.0-master+$Format:%H$", GitCommit: "$Format:%H$",
		BuildDate: "1970-01-01T00:00:00Z"}
	none := func() (*debug.BuildInfo, bool) { return nil, false }
	got := complete(unstamped, none)
	if got.GitVersion != fallback || got.Major != "1" || got.Minor != "36" || got.GitCommit != "unknown" ||
		got.GitTreeState != "unknown" {
		t.Errorf("without a stamp: %+v", got)
	}
	build := func() (*debug.BuildInfo, bool) {
		return &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"},
			{Key: "vcs.modified", Value: "true"}}}, true
	}
	if got := complete(unstamped, build); got.GitCommit != "abc" || got.GitTreeState != "dirty" {
		t.Errorf("with Go's stamp: %+v", got)
	}
	stamped := apiversion.Info{GitVersion: "v1.40.2", GitCommit: "def", GitTreeState: "clean"}
	if got := complete(stamped, build); got.GitVersion != "v1.40.2" || got.Minor != "40" || got.GitCommit != "def" {
		t.Errorf("stamped: %+v", got)
	}
	if strings.Contains(Get().String()+Get().GitCommit, "$") {
		t.Errorf("got %+v", Get())
	}
}

// TestFallbackFollowsModules: the release is that of the types.
func TestFallbackFollowsModules(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\s*k8s\.io/api v0\.(\S+)`).FindSubmatch(text)
	if found == nil || "v1."+string(found[1]) != fallback {
		t.Errorf("go.mod has %q, the release is %s", found, fallback)
	}
}

// TestReport: the reported version must be of the same release.
func TestReport(t *testing.T) {
	t.Cleanup(func() { reported.Store(nil) })
	own := Get().GitVersion
	for _, wrong := range []string{"v1.2.3", "v1", "custom"} {
		if err := Report(wrong); err == nil || Get().GitVersion != own {
			t.Errorf("%s: %v, %s", wrong, err, Get().GitVersion)
		}
	}
	if err := Report(own + "-custom"); err != nil || Get().GitVersion != own+"-custom" {
		t.Errorf("%v, %s", err, Get().GitVersion)
	}
}

func TestOwn(t *testing.T) {
	of := func(version string, replace *debug.Module) func() (*debug.BuildInfo, bool) {
		return func() (*debug.BuildInfo, bool) {
			return &debug.BuildInfo{Deps: []*debug.Module{
				{Path: "quintet.dev/quintet", Version: version, Replace: replace}}}, true
		}
	}
	for _, test := range []struct {
		build func() (*debug.BuildInfo, bool)
		want  string
	}{
		{of("v0.3.0", nil), "v0.3.0"}, {of("(devel)", nil), "devel"}, {of("v0.3.0", &debug.Module{Path: ".."}), "devel"},
		{func() (*debug.BuildInfo, bool) { return nil, false }, "devel"},
	} {
		if got := ownOf(test.build); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
}
