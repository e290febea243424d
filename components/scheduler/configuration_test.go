package scheduler

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"quintet.dev/quintet/internal/leader"
)

// TestConfigurationIsReadBack: a configuration survives the round trip through JSON.
func TestConfigurationIsReadBack(t *testing.T) {
	for name, file := range map[string]string{
		"nothing": "",
		"much": much + `
    filter: {enabled: [{name: NodeUnschedulable}]}
`,
	} {
		want, err := loaded(t, header+file)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(want.configuration())
		if err != nil {
			t.Fatal(err)
		}
		got, err := loaded(t, string(text))
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		again, err := json.Marshal(got.configuration())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(text), string(again)); diff != "" {
			t.Errorf("%s: read back:\n%s", name, diff)
		}
		ignore := cmpopts.IgnoreFields(Config{}, "Client", "File", "CommandLine", "Access", "Clock", "Profiles",
			"QPS", "changed", "gates", "plugins", "pluginNames", "handles", "connection", "claims", "devices",
			"working", "volumeErrors")
		if diff := cmp.Diff(want, got, ignore, cmpopts.IgnoreFields(leader.Config{}, "Watchdog")); diff != "" {
			t.Errorf("%s: -before +read back:\n%s", name, diff)
		}
		profiles, _, err := build(want)
		if err != nil {
			t.Fatal(err)
		}
		same, _, err := build(got)
		if err != nil {
			t.Fatal(err)
		}
		for name := range profiles {
			if diff := cmp.Diff(used(profiles[name]), used(same[name])); diff != "" {
				t.Errorf("profile %s: -before +read back:\n%s", name, diff)
			}
		}
	}
	if c := (&Config{InitialBackoff: 1500 * time.Millisecond}).configuration(); c.PodInitialBackoffSeconds != nil {
		t.Errorf("1.5 s are told as %d", *c.PodInitialBackoffSeconds)
	}
}

// used is what a profile does, by name, in order.
func used(p *profile) map[string]any {
	var gates, filters, rooms []string
	for _, g := range p.gates {
		gates = append(gates, g.Name())
	}
	for _, f := range p.cycle.Filters {
		filters = append(filters, f.Name())
	}
	for _, r := range p.cycle.PostFilters {
		rooms = append(rooms, r.Name())
	}
	scores := map[string]int64{}
	for _, s := range p.cycle.Scores {
		scores[s.Name()] = s.Weight
	}
	return map[string]any{"gates": gates, "filters": filters, "rooms": rooms, "scores": scores,
		"percentage": p.cycle.Percentage}
}
