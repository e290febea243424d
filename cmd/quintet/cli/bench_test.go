package cli

import (
	"strings"
	"testing"
)

// TestBenchRefuses: a flag that can't be meant is named, with what can, before anything is measured.
func TestBenchRefuses(t *testing.T) {
	for flags, want := range map[string]string{
		"--compare-with kubelet=/bin/true": "--compare-with kubelet=/bin/true: use one of kube-apiserver, kube-scheduler, " +
			"kube-controller-manager",
		"--compare-with kube-scheduler=/not/there": "--compare-with: ",
		"--compare-with /bin/true":                 "must be formatted as key=value",
		"--from 1/2 --until 1/4":                   `--until 1/4 comes before --from 1/2`,
		"--until 1/3":                              `--until "1/3": use one of 1/8, 1/4, 1/2, whole`,
		"--only (":                                 "--only: ",
		"--only ^nothing$":                         `only "^nothing$": no section has such a name; there are `,
		"--nodes 3":                                "--nodes 3: ",
		"--pods-per-node 500":                      "--pods-per-node 500: ",
		"--pods 3 --clients 4":                     "--pods must be at least --clients",
	} {
		code, _, err := run(t.Context(), t.TempDir(), append([]string{"bench"}, strings.Fields(flags)...)...)
		if code == 0 || !strings.Contains(err.String(), want) {
			t.Errorf("bench %s: code %d, %q, want %q", flags, code, err.String(), want)
		}
	}
}
