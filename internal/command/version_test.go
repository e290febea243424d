package command

import (
	"context"
	"strings"
	"testing"

	logsapi "k8s.io/component-base/logs/api/v1"

	"quintet.dev/quintet/internal/release"
)

// TestVersion: what --version prints is upstream's, by which scripts find out what they have.
func TestVersion(t *testing.T) {
	own := release.Get().GitVersion
	for arg, want := range map[string]struct{ out, err string }{
		"--version":        {out: "Kubernetes " + own + "\n"},
		"--version=true":   {out: "Kubernetes " + own + "\n"},
		"--version=raw":    {out: `version.Info{Major:"1", Minor:"36", `},
		"--version=false":  {out: "ran"},
		"--version=v1.2.3": {err: `version "v1.2.3" must match major/minor/patch of default version "` + own + `"`},
		"--version=x":      {err: `invalid argument "x" for "--version" flag`},
	} {
		if err := logsapi.ResetForTest(nil); err != nil { // a process sets its logging up once
			t.Fatal(err)
		}
		var out strings.Builder
		cmd := build(Program{Name: "player", Config: &config{}, Run: func(context.Context) error {
			out.WriteString("ran")
			return nil
		}})
		cmd.SetOut(&out)
		cmd.SetArgs([]string{arg})
		err := cmd.ExecuteContext(t.Context())
		if !strings.HasPrefix(out.String(), want.out) || (err == nil) != (want.err == "") || err != nil &&
			!strings.Contains(err.Error(), want.err) {
			t.Errorf("%s: %q, %v", arg, out.String(), err)
		}
	}
}
