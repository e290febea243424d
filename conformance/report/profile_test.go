package report

import (
	"slices"
	"strings"
	"testing"
)

// of makes a report of a profile "p" with the core feature "core" and a case per outcome; outcomes of cases that need
// something are written as "Outcome/feature".
func of(found []string, claimed bool, outcomes ...string) *Report {
	r := &Report{Suite: Suite{Features: found}}
	if claimed {
		r.Suite.Profiles = []string{"p"}
	}
	for _, outcome := range outcomes {
		outcome, need, needs := strings.Cut(outcome, "/")
		c := Case{ID: "a/" + outcome, Profiles: []string{"p"}, Outcome: Outcome(outcome)}
		if needs {
			c.Needs = []string{need}
		}
		r.Cases = append(r.Cases, c)
	}
	r.Cases = append(r.Cases, Case{ID: "other", Profiles: []string{"q"}, Outcome: Failed})
	r.Conclude([]ProfileSpec{{Name: "p", Core: []string{"core"}, Extended: []string{"more"}}})
	return r
}

func TestResults(t *testing.T) {
	core := []string{"core"}
	for name, test := range map[string]struct {
		found    []string
		outcomes []string
		want     Result
	}{
		"all passed":                       {core, []string{"Passed", "Passed/core"}, ResultConformant},
		"without an extended feature":      {core, []string{"Passed", "NotSupported/more"}, ResultConformant},
		"without a core feature":           {nil, []string{"Passed", "NotSupported/core"}, ResultUnsupported},
		"flaky":                            {core, []string{"Passed", "Flaky"}, ResultConformant},
		"failed":                           {core, []string{"Passed", "Failed", "Inconclusive", "Skipped"}, ResultFailed},
		"failed without a core feature":    {nil, []string{"Failed", "NotSupported/core"}, ResultFailed},
		"inconclusive is not passed":       {core, []string{"Passed", "Inconclusive"}, ResultInconclusive},
		"a filtered run is not conformant": {core, []string{"Passed", "Skipped"}, ResultFiltered},
		"nothing ran":                      {core, []string{"NotSupported/more"}, ResultInconclusive},
		"no case":                          {core, nil, ResultInconclusive},
	} {
		for _, claimed := range []bool{false, true} {
			r := of(test.found, claimed, test.outcomes...)
			if got := r.Profiles[0]; got.Result != test.want || (got.Reason == "") != (name == "all passed" ||
				name == "without an extended feature") {
				t.Errorf("%s: %s (%s), want %s", name, got.Result, got.Reason, test.want)
			}
			if got := r.Result(); got != test.want || r.Conformant() != (test.want == ResultConformant) {
				t.Errorf("%s, claimed %v: the whole is %s", name, claimed, got)
			}
		}
	}
}

// TestResultOfAllProfiles: one that the cluster does not support counts only if it was claimed.
func TestResultOfAllProfiles(t *testing.T) {
	r := &Report{Profiles: []Profile{{Result: ResultConformant}, {Result: ResultUnsupported}}}
	if got := r.Result(); got != ResultConformant {
		t.Errorf("nothing claimed: %s", got)
	}
	r.Suite.Profiles = []string{"a", "b"}
	if got := r.Result(); got != ResultUnsupported {
		t.Errorf("both claimed: %s", got)
	}
	r.Profiles[0].Result = ResultInconclusive
	if got := r.Result(); got != ResultInconclusive {
		t.Errorf("one inconclusive: %s", got)
	}
}

// TestOneBadOutcomeSpoils: whatever else is in a profile, a failed or inconclusive case keeps it from being conformant.
func TestOneBadOutcomeSpoils(t *testing.T) {
	for _, bad := range []Outcome{Failed, Inconclusive, Skipped} {
		for _, beside := range Outcomes() {
			for _, found := range [][]string{nil, {"core"}, {"core", "more"}} {
				if r := of(found, true, "Passed", string(beside)+"/core", string(bad)); r.Conformant() {
					t.Errorf("conformant with a case %s beside one %s", bad, beside)
				}
			}
		}
	}
}

func TestFeaturesOfProfile(t *testing.T) {
	p := of([]string{"more"}, false, "Passed/more", "NotSupported/core").Profiles[0]
	if !slices.Equal(p.MissingCore, []string{"core"}) || !slices.Equal(p.Supported, []string{"more"}) ||
		p.Unsupported != nil || p.Core[NotSupported] != 1 || p.Extended[Passed] != 1 {
		t.Errorf("%+v", p)
	}
	if p = of([]string{"core"}, false, "Passed").Profiles[0]; p.MissingCore != nil ||
		!slices.Equal(p.Unsupported, []string{"more"}) {
		t.Errorf("%+v", p)
	}
}
