package upstreamflags

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestTakesWhatIsSoAnyway(t *testing.T) {
	flags := []Flag{{Name: "on", Default: "true", Why: "is always on"},
		{Name: "size", Default: "1", Same: []string{"0"}, Why: "there is no other size"},
		{Name: "other", Why: "is of another mode", Ignored: true}}
	for line, fails := range map[string]string{
		"--on --size=1": "", "--on=true --size=0": "", "--other=x": "", "": "",
		"--on=false": "is always on", "--size=2": `there is no other size; only "1", "0" is taken`,
	} {
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		Add(fs, flags)
		err := fs.Parse(strings.Fields(line))
		if (err == nil) != (fails == "") || err != nil && !strings.Contains(err.Error(), fails) {
			t.Errorf("%q: %v, want %q", line, err, fails)
		}
	}
}
