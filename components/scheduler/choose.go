package scheduler

import (
	"fmt"
	"slices"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"quintet.dev/quintet/components/scheduler/plugins"
)

// known tells whether a plug-in is in the default list or of a user.
func (c *Config) known(name string) bool {
	_, own := c.plugins[name]
	return own || isDefault(name)
}

func isDefault(name string) bool {
	return slices.ContainsFunc(plugins.Default(), func(e plugins.Entry) bool { return e.Name == name })
}

// upstreamOnly names plug-ins of upstream that are not implemented: disabling them is no error.
func upstreamOnly(name string) bool {
	return slices.Contains([]string{"GangScheduling", "TopologyPlacement", "PodGroupPodsCount"}, name)
}

// choose returns the plug-ins that a profile enables, and those that extension points enable themselves, which come
// first there.
func (c *Config) choose(file *configv1.Plugins) ([]Plugin, map[Points][]string, error) {
	chosen := defaults()
	if file == nil {
		return chosen, nil, nil
	}
	if err := unsupportedSets(file); err != nil {
		return nil, nil, err
	}
	if err := c.checkSet("multiPoint", &file.MultiPoint); err != nil {
		return nil, nil, err
	}
	chosen = disable(chosen, file.MultiPoint.Disabled)
	chosen, err := enable("multiPoint", chosen, file.MultiPoint.Enabled)
	if err != nil {
		return nil, nil, err
	}
	first := map[Points][]string{}
	names := pointNames()
	for i, set := range pointSets(file) {
		if err := c.checkSet(names[i], set); err != nil {
			return nil, nil, err
		}
		if chosen, err = usePoint(names[i], 1<<i, chosen, set); err != nil {
			return nil, nil, err
		}
		for _, p := range set.Enabled {
			first[1<<i] = append(first[1<<i], p.Name)
		}
	}
	return chosen, first, checkHalves(chosen)
}

// checkHalves refuses to leave out what prepares a filter or score of ours, and not the filter or score itself.
func checkHalves(chosen []Plugin) error {
	for _, p := range chosen {
		if !isDefault(p.Name) || p.Skip&AtPostBind != 0 { // the latter is enabled at single points only
			continue
		}
		switch {
		case p.Skip&(AtPreFilter|AtFilter) == AtPreFilter:
			return fmt.Errorf("preFilter.disabled: the filter of plug-in %q needs it; disable it at filter, too", p.Name)
		case p.Skip&(AtPreScore|AtScore) == AtPreScore:
			return fmt.Errorf("preScore.disabled: the score of plug-in %q needs it; disable it at score, too", p.Name)
		}
	}
	return nil
}

func defaults() []Plugin {
	var chosen []Plugin
	for _, e := range plugins.Default() {
		chosen = append(chosen, Plugin{Name: e.Name})
	}
	return chosen
}

// checkSet refuses plug-ins that are unknown or named twice.
func (c *Config) checkSet(set string, s *configv1.PluginSet) error {
	for i, p := range s.Enabled {
		if !c.known(p.Name) {
			return fmt.Errorf("%s.enabled[%d]: plug-in %q is not supported", set, i, p.Name)
		}
		if slices.ContainsFunc(s.Enabled[:i], func(before configv1.Plugin) bool { return before.Name == p.Name }) {
			return fmt.Errorf("%s.enabled[%d]: plug-in %q is enabled already", set, i, p.Name)
		}
	}
	for i, p := range s.Disabled {
		if p.Name != "*" && !c.known(p.Name) && !upstreamOnly(p.Name) {
			return fmt.Errorf("%s.disabled[%d]: plug-in %q is not supported", set, i, p.Name)
		}
	}
	return nil
}

func disable(chosen []Plugin, off []configv1.Plugin) []Plugin {
	return slices.DeleteFunc(chosen, func(p Plugin) bool { return named(off, p.Name) })
}

// named tells whether a list names a plug-in, or all.
func named(list []configv1.Plugin, name string) bool {
	return slices.ContainsFunc(list, func(p configv1.Plugin) bool { return p.Name == name || p.Name == "*" })
}

// enable moves nothing that is on already but gives it the weight; what is new comes last, in order.
func enable(set string, chosen []Plugin, on []configv1.Plugin) ([]Plugin, error) {
	for i, p := range on {
		weight := int64(0)
		if p.Weight != nil {
			if weight = int64(*p.Weight); weight < 0 {
				return nil, fmt.Errorf("%s.enabled[%d].weight: %d is negative", set, i, weight)
			}
		}
		at := slices.IndexFunc(chosen, func(c Plugin) bool { return c.Name == p.Name })
		if at < 0 {
			chosen = append(chosen, Plugin{Name: p.Name})
			at = len(chosen) - 1
		}
		if set == "multiPoint" || weight != 0 {
			chosen[at].Weight = weight
		}
	}
	return chosen, nil
}

// usePoint enables and disables plug-ins at one extension point. A plug-in that only this point enables has no others.
func usePoint(name string, point Points, chosen []Plugin, set *configv1.PluginSet) ([]Plugin, error) {
	for i := range chosen {
		if named(set.Disabled, chosen[i].Name) {
			chosen[i].Skip |= point
		}
	}
	before := len(chosen)
	chosen, err := enable(name, chosen, set.Enabled)
	if err != nil {
		return nil, err
	}
	for i := range chosen {
		if i >= before {
			chosen[i].Skip = everywhere
		}
		if slices.ContainsFunc(set.Enabled, func(p configv1.Plugin) bool { return p.Name == chosen[i].Name }) {
			chosen[i].Skip &^= point
		}
	}
	return chosen, nil
}
