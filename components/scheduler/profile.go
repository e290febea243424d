package scheduler

import (
	"fmt"
	"slices"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/plugins"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// gate is a plug-in that keeps pods from being tried.
type gate interface {
	Name() string
	Gated(*snapshot.Pod) bool
}

// profile is a Profile made ready.
type profile struct {
	cycle *cycle.Profile
	gates []gate
}

// build makes the profiles by name, and the hints of all their plug-ins.
func build(c *Config) (map[string]*profile, queue.Hints, error) {
	profiles, hints := map[string]*profile{}, queue.Hints{}
	for i, p := range c.Profiles {
		if p.Name == "" {
			return nil, nil, fmt.Errorf("profiles[%d]: a profile needs a scheduler name", i)
		}
		if profiles[p.Name] != nil {
			return nil, nil, fmt.Errorf("profiles[%d]: scheduler name %q is taken", i, p.Name)
		}
		made, err := buildProfile(p, hints)
		if err != nil {
			return nil, nil, fmt.Errorf("profile %q: %w", p.Name, err)
		}
		if made.cycle.Percentage == 0 {
			made.cycle.Percentage = c.Percentage
		}
		profiles[p.Name] = made
	}
	return profiles, hints, nil
}

func buildProfile(p Profile, hints queue.Hints) (*profile, error) {
	made := &profile{cycle: &cycle.Profile{Name: p.Name, Percentage: p.Percentage}}
	entries := plugins.Default()
	chosen := p.Plugins
	if chosen == nil {
		for _, e := range entries {
			chosen = append(chosen, Plugin{Name: e.Name})
		}
	}
	for _, choice := range chosen {
		at := slices.IndexFunc(entries, func(e plugins.Entry) bool { return e.Name == choice.Name })
		if at < 0 {
			return nil, fmt.Errorf("plug-in %q is not supported", choice.Name)
		}
		plugin, err := entries[at].New(choice.Args)
		if err != nil {
			return nil, fmt.Errorf("plug-in %s: %w", choice.Name, err)
		}
		if choice.Weight == 0 {
			choice.Weight = entries[at].Weight
		}
		made.use(plugin, choice)
		hints[choice.Name] = append(hints[choice.Name], plugin.Hints()...)
	}
	return made, nil
}

func (p *profile) use(plugin plugins.Plugin, choice Plugin) {
	if g, ok := plugin.(gate); ok && !choice.Skip.PreEnqueue {
		p.gates = append(p.gates, g)
	}
	if f, ok := plugin.(cycle.Filter); ok && !choice.Skip.Filter {
		p.cycle.Filters = append(p.cycle.Filters, f)
	}
	if f, ok := plugin.(cycle.PostFilter); ok && !choice.Skip.PostFilter {
		p.cycle.PostFilters = append(p.cycle.PostFilters, f)
	}
	if s, ok := plugin.(cycle.Score); ok && !choice.Skip.Score {
		p.cycle.Scores = append(p.cycle.Scores, cycle.Weighted{Score: s, Weight: choice.Weight})
	}
}

func (p *profile) gatedBy(pod *snapshot.Pod) string {
	for _, g := range p.gates {
		if g.Gated(pod) {
			return g.Name()
		}
	}
	return ""
}
