package conformance

import (
	"slices"
	"strings"
	"testing"

	"quintet.dev/quintet/conformance/report"
	"quintet.dev/quintet/conformance/suite"
)

var some = []suite.Case{
	{ID: "api/a", Component: suite.APIServer},
	{ID: "scheduling/b", Component: suite.Scheduler, Needs: []suite.Feature{suite.HasScheduler}},
	{ID: "flow/c", Component: suite.Flow},
}

func TestChoose(t *testing.T) {
	earlier := &report.Report{Suite: report.Suite{Profiles: []string{"full"}}, Cases: []report.Case{
		{ID: "api/a", Outcome: report.Failed}, {ID: "scheduling/b", Outcome: report.Passed},
		{ID: "flow/c", Outcome: report.Inconclusive},
	}}
	for name, test := range map[string]struct {
		options Options
		want    string
		err     string
	}{
		"all":                 {Options{}, "api/a scheduling/b flow/c", ""},
		"a filter":            {Options{Filter: "^(api|flow)/"}, "api/a flow/c", ""},
		"a profile":           {Options{Profiles: []suite.Profile{"scheduler"}}, "scheduling/b", ""},
		"two profiles":        {Options{Profiles: []suite.Profile{"scheduler", "api-only"}}, "api/a scheduling/b", ""},
		"again":               {Options{Rerun: earlier}, "api/a flow/c", ""},
		"again with a filter": {Options{Rerun: earlier, Filter: "x"}, "", "those of the earlier report"},
		"again for nothing":   {Options{Rerun: &report.Report{}}, "", "no case of the earlier report"},
		"no such profile":     {Options{Profiles: []suite.Profile{"best"}}, "", `unknown profile "best"`},
		"no such case":        {Options{Filter: "^x$"}, "", "no case has such an identifier"},
		"no expression":       {Options{Filter: "("}, "", "filter: "},
	} {
		chosen, err := Choose(test.options, some)
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: %v, want %q", name, err, test.err)
		}
		var ids []string
		for _, c := range chosen {
			ids = append(ids, c.ID)
		}
		if got := strings.Join(ids, " "); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestDigest(t *testing.T) {
	for name, change := range map[string]func(*suite.Case){
		"requirement": func(c *suite.Case) { c.Requirement = "It MUST." },
		"needs":       func(c *suite.Case) { c.Needs = []suite.Feature{suite.TwoNodes} },
		"profile":     func(c *suite.Case) { c.Profiles = []suite.Profile{suite.ProfileNode} },
	} {
		other := slices.Clone(some)
		change(&other[0])
		if digest(other) == digest(some) {
			t.Errorf("another %s, and the same digest", name)
		}
	}
	if digest(some) != digest(slices.Clone(some)) || digest(some) == digest(some[1:]) {
		t.Error("the digest is not one of the list")
	}
}

func TestField(t *testing.T) {
	cpus := []byte("processor\t: 0\nmodel name\t: A CPU: fast\nprocessor\t: 1\nmodel name\t: other\n")
	if got := field(cpus, "model name"); got != "A CPU: fast" {
		t.Errorf("%q", got)
	}
	if got := field(cpus, "none"); got != "" {
		t.Errorf("%q", got)
	}
}
