package report

import (
	"bytes"
	"strings"
	"testing"
)

func TestCompareListsOnlyChanges(t *testing.T) {
	before, after := sample(), sample()
	after.Cases[0].Outcome = Inconclusive
	after.Cases[1].Outcome = Passed
	after.Cases = append(after.Cases[:2:2], Case{ID: "api/new", Outcome: Failed})
	got := Compare(before, after).Changes
	want := []Change{
		{"api/a", Passed, Inconclusive, ""}, {"api/b", Failed, Passed, "want <x>\nsecond line"},
		{"api/new", "", Failed, ""}, {"flow/e", Passed, "", ""},
		{"node/c", NotSupported, "", ""}, {"node/d", Inconclusive, "", ""},
	}
	if len(got) != len(want) {
		t.Fatalf("changes = %v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("change %d = %v, want %v", i, got[i], want[i])
		}
		if worse := i != 1 && i < 4; got[i].Worse() != worse {
			t.Errorf("change %v is worse: %v", got[i], !worse)
		}
	}
}

func TestComparable(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Report)
		want   string
	}{
		"another cluster":  {func(r *Report) { r.Cluster = Cluster{Name: "other", Version: "v1.35.0"} }, ""},
		"another machine":  {func(r *Report) { r.Machine.Cores = 64 }, ""},
		"other features":   {func(r *Report) { r.Suite.Features = nil }, ""},
		"another version":  {func(r *Report) { r.Suite.Version = "9" }, "version of the suite"},
		"other cases":      {func(r *Report) { r.Suite.Digest = "sha256:e" }, "list of cases"},
		"a filter":         {func(r *Report) { r.Suite.Filter = "^api/" }, "filter"},
		"another profile":  {func(r *Report) { r.Suite.Profiles = []string{"node"} }, "profiles"},
		"several of these": {func(r *Report) { r.Suite.Version, r.Suite.Filter = "9", "x" }, "filter"},
	} {
		a, b := sample(), sample()
		test.change(b)
		err := Comparable(a, b)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if times := TimesComparable(a, b); (times != nil) != (name == "another machine") {
			t.Errorf("%s: durations: %v", name, times)
		}
	}
}

func TestComparisonShowsSubjects(t *testing.T) {
	before, after := sample(), sample()
	after.Cluster.Version, after.Cluster.Images[0].ID = "v1.37.0", "sha256:2"
	after.Cluster.Nodes = append(after.Cluster.Nodes, Node{Name: "n2", Kubelet: "v1"})
	after.Cases[0].Outcome, after.Cases[0].Reason = Failed, "no <b>\nmore"
	after.Suite.Filter = "x"
	c := Compare(before, after)
	var text, page bytes.Buffer
	if err := c.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteHTML(&page, before, after); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"! the reports are not comparable: filter", "v1.36.6  -> v1.37.0",
		"image of coredns                   sha256:1 -> sha256:2", "node n2                            - -> kubelet v1",
		"! api/a                              Passed -> Failed  no <b>\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	for _, want := range []string{"not comparable", "no &lt;b&gt;", "sha256:2", `<span class="tag Failed">Failed</span>`} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %q in the page", want)
		}
	}
	if strings.Contains(page.String(), "ZgotmplZ") || strings.Contains(page.String(), "<b>\n") {
		t.Error("the page is not escaped")
	}
	if same := Compare(before, before); len(same.Subjects)+len(same.Profiles)+len(same.Changes) > 0 || same.Worse() {
		t.Errorf("a report and itself: %+v", same)
	}
}
