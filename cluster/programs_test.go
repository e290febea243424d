package cluster

import (
	"strings"
	"testing"
	"time"

	"quintet.dev/quintet/components/scheduler"
)

// TestParseRefusesWords: a word that is neither a flag nor the value of one is an error that names the component.
func TestParseRefusesWords(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"--v=4 --leader-elect=false", ""},
		{"--v 4", ""},
		{"v=4", `"v=4" is no flag; did you mean --v=4?`},
		{"--v=4 leader_elect=true", `"leader_elect=true" is no flag; did you mean --leader_elect=true?`},
		{"--leader-elect false", `"false" is no flag; the value of a switch follows an equals sign: --FLAG=false`},
		{"verbose", `"verbose" is no flag; arguments are flags, such as --v=4`},
	} {
		var config scheduler.Config
		got := ""
		if err := parse("kube-scheduler", config.AddFlags, strings.Fields(test.args)); err != nil {
			got = strings.TrimPrefix(err.Error(), "kube-scheduler: argument ")
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.args, got, test.want)
		}
	}
}

// TestStartRefusesWords: the start of a cluster tells of the word.
func TestStartRefusesWords(t *testing.T) {
	_, err := Start(t.Context(), InProcess(), WithNodes(0), WithTimeout(time.Minute), WithArgs(Scheduler, "v=4"))
	if err == nil || !strings.Contains(err.Error(), "did you mean --v=4?") {
		t.Errorf("%v", err)
	}
}
