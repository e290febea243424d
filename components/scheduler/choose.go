package scheduler

import (
	"fmt"
	"slices"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"quintet.dev/quintet/components/scheduler/plugins"
)

// known tells whether a plug-in is in the default list.
func known(name string) bool {
	return slices.ContainsFunc(plugins.Default(), func(e plugins.Entry) bool { return e.Name == name })
}

// upstreamOnly names plug-ins of upstream's default list that are not here: to turn them off is no error.
func upstreamOnly(name string) bool {
	return slices.Contains([]string{
		"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "NodeDeclaredFeatures", "GangScheduling",
	}, name)
}

// builtIn names what is always there: the order of the queue, and how pods are bound.
func builtIn(set, name string) bool {
	return name == "PrioritySort" && set != "bind" || name == "DefaultBinder" && set != "queueSort"
}

// choose makes the list of plug-ins from what a profile turns on and off.
func choose(file *configv1.Plugins) ([]Plugin, error) {
	chosen := defaults()
	if file == nil {
		return chosen, nil
	}
	all := pluginSets(file)
	for name, set := range all {
		if err := checkSet(name, set); err != nil {
			return nil, err
		}
	}
	multi := all["multiPoint"]
	chosen = disable(chosen, multi.Disabled)
	chosen, err := enable("multiPoint", chosen, multi.Enabled)
	if err != nil {
		return nil, err
	}
	for _, point := range []string{"preEnqueue", "filter", "postFilter", "score"} {
		if chosen, err = usePoint(point, chosen, all[point]); err != nil {
			return nil, err
		}
	}
	return chosen, nil
}

func defaults() []Plugin {
	var chosen []Plugin
	for _, e := range plugins.Default() {
		chosen = append(chosen, Plugin{Name: e.Name})
	}
	return chosen
}

// checkSet refuses plug-ins that are unknown, and extension points whose configuration would have no effect here.
func checkSet(set string, s configv1.PluginSet) error {
	for i, p := range s.Enabled {
		if !known(p.Name) && !builtIn(set, p.Name) {
			return fmt.Errorf("%s.enabled[%d]: plug-in %q is not supported", set, i, p.Name)
		}
	}
	for i, p := range s.Disabled {
		if builtIn(set, p.Name) {
			return fmt.Errorf("%s.disabled[%d]: plug-in %q can't be turned off", set, i, p.Name)
		}
		if p.Name != "*" && !known(p.Name) && !upstreamOnly(p.Name) {
			return fmt.Errorf("%s.disabled[%d]: plug-in %q is not supported", set, i, p.Name)
		}
	}
	always := map[string]string{"queueSort": "PrioritySort", "bind": "DefaultBinder"}[set]
	if always != "" && named(s.Disabled, always) && !named(s.Enabled, always) {
		return fmt.Errorf("%s.disabled: plug-in %q can't be turned off", set, always)
	}
	switch set {
	case "multiPoint", "preEnqueue", "filter", "postFilter", "score", "queueSort", "bind":
		return nil
	}
	if len(s.Enabled)+len(s.Disabled) > 0 {
		return fmt.Errorf("%s: this extension point can't be configured; use multiPoint, filter, postFilter or score", set)
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
		if builtIn(set, p.Name) {
			continue
		}
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
		chosen[at].Weight = weight
	}
	return chosen, nil
}

// usePoint turns one thing that plug-ins do on and off. A plug-in that only this point enables does nothing else.
func usePoint(point string, chosen []Plugin, set configv1.PluginSet) ([]Plugin, error) {
	for i := range chosen {
		if named(set.Disabled, chosen[i].Name) {
			*skip(point, &chosen[i].Skip) = true
		}
	}
	before := len(chosen)
	chosen, err := enable(point, chosen, set.Enabled)
	if err != nil {
		return nil, err
	}
	for i := range chosen {
		if i >= before {
			chosen[i].Skip = Points{PreEnqueue: true, Filter: true, PostFilter: true, Score: true}
		}
		if slices.ContainsFunc(set.Enabled, func(p configv1.Plugin) bool { return p.Name == chosen[i].Name }) {
			*skip(point, &chosen[i].Skip) = false
		}
	}
	return chosen, nil
}

func skip(point string, p *Points) *bool {
	switch point {
	case "preEnqueue":
		return &p.PreEnqueue
	case "filter":
		return &p.Filter
	case "postFilter":
		return &p.PostFilter
	}
	return &p.Score
}
