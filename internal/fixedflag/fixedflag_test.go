package fixedflag

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestFlag(t *testing.T) {
	for args, want := range map[string]string{
		"--a=x": "", "--a=y": "", "--a=z": "not supported: there is one", "--b": "not supported: none", "--b=false": "",
	} {
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		Add(fs, map[string]Flag{
			"a": {"string", []string{"x", "y"}, "there is one"}, "b": {"bool", []string{"false"}, "none"},
		})
		err := fs.Parse([]string{args})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
