package scheduler

import (
	"errors"
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"

	"quintet.dev/quintet/components/scheduler/commit"
	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/extender"
	"quintet.dev/quintet/components/scheduler/framework"
	"quintet.dev/quintet/components/scheduler/plugins"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// profile is a Profile made ready.
type profile struct {
	cycle  *cycle.Profile
	commit *commit.Profile
	gates  []plugins.Gate
	sorts  []plugins.QueueSort
}

// build makes the profiles by name, and the hints of all their plug-ins.
func build(c *Config) (map[string]*profile, queue.Hints, error) {
	profiles, hints := map[string]*profile{}, queue.Hints{}
	if c.handles == nil {
		c.handles = c.newHandles()
	}
	extenders, err := extender.NewAll(c.Extenders, c.prioritizing)
	if err != nil {
		return nil, nil, err
	}
	if len(extenders) > 0 {
		hints[cycle.ExtenderName] = []queue.Hint{{Kinds: ^queue.Kind(0)}} // what helps, only they know
	}
	for i, p := range c.Profiles {
		if p.Name == "" {
			return nil, nil, fmt.Errorf("profiles[%d]: a profile needs a scheduler name", i)
		}
		if profiles[p.Name] != nil {
			return nil, nil, fmt.Errorf("profiles[%d]: scheduler name %q is taken", i, p.Name)
		}
		made, err := c.buildProfile(p, hints)
		if err != nil {
			return nil, nil, fmt.Errorf("profile %q: %w", p.Name, err)
		}
		if first := profiles[c.Profiles[0].Name]; first != nil && first.sorts[0].Name() != made.sorts[0].Name() {
			return nil, nil, fmt.Errorf("profile %q: different queue sort plugins: %q, first: %q", p.Name,
				made.sorts[0].Name(), first.sorts[0].Name())
		}
		if made.cycle.Percentage == 0 {
			made.cycle.Percentage = c.Percentage
		}
		made.extend(extenders)
		profiles[p.Name] = made
	}
	return profiles, hints, nil
}

func (c *Config) buildProfile(p Profile, hints queue.Hints) (*profile, error) {
	made := &profile{cycle: &cycle.Profile{Name: p.Name, Percentage: p.Percentage},
		commit: &commit.Profile{Waiting: c.handles.Waiting}}
	chosen := c.chosen(&p)
	handle := framework.NewHandle(c.handles, p.Name, made.cycle)
	all := make([]plugins.Parts, len(chosen))
	for i, choice := range chosen {
		parts, weight, err := c.makePlugin(handle, choice)
		if err != nil {
			return nil, fmt.Errorf("plug-in %s: %w", choice.Name, err)
		}
		if chosen[i].Weight == 0 {
			chosen[i].Weight = weight
		}
		chosen[i].Skip = whole(choice.Skip, !isDefault(choice.Name))
		all[i] = parts
		hints[choice.Name] = append(hints[choice.Name], parts.Hints...)
	}
	names := pointNames()
	for i, name := range names {
		if err := made.use(name, 1<<i, p.First[1<<i], chosen, all); err != nil {
			return nil, err
		}
	}
	return made, made.check()
}

// chosen are the plug-ins of a profile, which the caller may change.
func (c *Config) chosen(p *Profile) []Plugin {
	if p.Plugins != nil {
		return slices.Clone(p.Plugins)
	}
	chosen := defaults()
	for _, name := range c.pluginNames {
		chosen = append(chosen, Plugin{Name: name})
	}
	return chosen
}

// makePlugin makes a plug-in and returns the default weight of its score.
func (c *Config) makePlugin(handle *framework.Handle, choice Plugin) (plugins.Parts, int64, error) {
	if factory, own := c.plugins[choice.Name]; own {
		parts, err := handle.Make(choice.Name, choice.Args, factory, framework.Off{
			PreFilter: choice.Skip&AtPreFilter != 0, Filter: choice.Skip&AtFilter != 0,
			PreScore: choice.Skip&AtPreScore != 0, Score: choice.Skip&AtScore != 0,
		})
		return parts, 1, err
	}
	entries := plugins.Default()
	at := slices.IndexFunc(entries, func(e plugins.Entry) bool { return e.Name == choice.Name })
	if at < 0 {
		return plugins.Parts{}, 0, errors.New("is not supported")
	}
	plugin, err := entries[at].New(choice.Args, c.dependencies())
	if err != nil {
		return plugins.Parts{}, 0, err
	}
	return plugins.PartsOf(plugin), entries[at].Weight, nil
}

// extend adds extenders; those that bind come before the Bind plug-ins.
func (p *profile) extend(all []*extender.Extender) {
	for _, e := range all {
		p.cycle.Extenders = append(p.cycle.Extenders, e)
	}
	if slices.ContainsFunc(all, (*extender.Extender).Binds) {
		p.commit.Binds = slices.Insert(p.commit.Binds, 0, commit.Bind(extender.Binder(all)))
	}
}

// dependencies are what plug-ins of ours act with.
func (c *Config) dependencies() plugins.Dependencies {
	return plugins.Dependencies{Client: c.Client, Clock: c.Clock, Devices: c.gates.devices(),
		IgnoredResources: extender.Ignored(c.Extenders),
		ResourceClaim: func(namespace, name string) (*resourcev1.ResourceClaim, error) {
			return c.handles.Informers.Resource().V1().ResourceClaims().Lister().ResourceClaims(namespace).Get(name)
		},
		ClaimCreated: func(err error) { claimCreated(c.claims, err) }, DevicesAwaited: c.devices.awaited,
		VolumesFailed: func(stage string) { c.volumeErrors.WithLabelValues(stage).Inc() },
	}
}

// use adds the plug-ins of one extension point: first those that it names itself, then the others in order.
func (p *profile) use(name string, point Points, first []string, chosen []Plugin, all []plugins.Parts) error {
	var order []int
	for _, plugin := range first {
		at := slices.IndexFunc(chosen, func(c Plugin) bool { return c.Name == plugin })
		if at < 0 {
			continue
		}
		if does(all[at])&point == 0 && !(isDefault(plugin) && does(all[at])&siblings(point) != 0) {
			return fmt.Errorf("plugins.%s.enabled: plugin %q does not extend %s plugin", name, plugin, name)
		}
		order = append(order, at)
	}
	for i := range chosen {
		if !slices.Contains(order, i) {
			order = append(order, i)
		}
	}
	for _, i := range order {
		if chosen[i].Skip&point == 0 {
			p.add(point, all[i], chosen[i].Weight)
		}
	}
	return nil
}

// whole treats points that are one for us alike: a plug-in of a user knows itself which half of them it is used at.
func whole(skip Points, own bool) Points {
	for _, both := range []Points{AtPreFilter | AtFilter, AtPreScore | AtScore} {
		if own && skip&both != both {
			skip &^= both
		}
	}
	return skip
}

// siblings are points that a plug-in of ours does in one.
func siblings(point Points) Points {
	switch point {
	case AtPreFilter, AtFilter:
		return AtPreFilter | AtFilter
	case AtPreScore, AtScore:
		return AtPreScore | AtScore
	}
	return point
}

func (p *profile) add(point Points, parts plugins.Parts, weight int64) {
	switch {
	case point == AtQueueSort && parts.QueueSort != nil:
		p.sorts = append(p.sorts, parts.QueueSort)
	case point == AtPreEnqueue && parts.Gate != nil:
		p.gates = append(p.gates, parts.Gate)
	case point == AtFilter && parts.Filter != nil:
		p.cycle.Filters = append(p.cycle.Filters, parts.Filter)
	case point == AtPostFilter && parts.PostFilter != nil:
		p.cycle.PostFilters = append(p.cycle.PostFilters, parts.PostFilter)
	case point == AtScore && parts.Score != nil:
		p.cycle.Scores = append(p.cycle.Scores, cycle.Weighted{Score: parts.Score, Weight: weight})
	case point == AtReserve && parts.Reserve != nil:
		p.commit.Reserves = append(p.commit.Reserves, parts.Reserve)
	case point == AtPermit && parts.Permit != nil:
		p.commit.Permits = append(p.commit.Permits, parts.Permit)
	case point == AtPreBind && parts.PreBind != nil:
		p.commit.PreBinds = append(p.commit.PreBinds, parts.PreBind)
	case point == AtBind && parts.Bind != nil:
		p.commit.Binds = append(p.commit.Binds, parts.Bind)
	case point == AtPostBind && parts.PostBind != nil:
		p.commit.PostBinds = append(p.commit.PostBinds, parts.PostBind)
	}
}

// check refuses a profile that can't order or bind pods.
func (p *profile) check() error {
	switch {
	case len(p.sorts) == 0:
		return errors.New("queueSort: no queue sort plugin is enabled; PrioritySort is the default one")
	case len(p.sorts) > 1:
		return fmt.Errorf("queueSort: only one queue sort plugin may be enabled, but there are %d", len(p.sorts))
	case len(p.commit.Binds) == 0:
		return errors.New("bind: at least one bind plugin is needed; DefaultBinder is the default one")
	}
	return nil
}

// gatedBy returns the plug-in that keeps a pod from being tried, and why; "" is none.
func (p *profile) gatedBy(pod *snapshot.Pod) (plugin, reason string) {
	for _, g := range p.gates {
		if reason := g.Gated(pod); reason != "" {
			return g.Name(), reason
		}
	}
	return "", ""
}
