package discovery

import (
	"cmp"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// Input is what content is made of. It must not be changed once it is given away.
type Input struct {
	// Kinds are what this server serves itself.
	Kinds []*api.Kind
	// Services are in no order: they are what brings groups and versions into theirs. Group versions without one come
	// last.
	Services []*apiregistrationv1.APIService
	// Own are the APIServices of Kinds as this server would have them, whatever became of them: by these the aggregated
	// form is arranged, which as with upstream doesn't look at what is stored of what is served here.
	Own []*apiregistrationv1.APIService
	// Removed are those that are served here, and that the plain lists of groups and versions leave out.
	Removed map[schema.GroupVersion]bool
	// Elsewhere describes the group versions that others serve.
	Elsewhere map[schema.GroupVersion]*apidiscoveryv2.APIVersionDiscovery
	// Peers is what other API servers of the cluster serve, by their IDs.
	Peers map[string][]apidiscoveryv2.APIGroupDiscovery
}

// group is an API group with its versions, preferred first.
type group struct {
	name     string
	priority int32           // in the aggregated form
	versions []*groupVersion // as the plain form tells them
	told     []*groupVersion // as the aggregated form does
}

// groupVersion has kinds if it is served here, a description if it is served elsewhere, and neither if all that is
// known of it is an APIService.
type groupVersion struct {
	name      string
	priority  int32       // in the plain form
	rank      rank        // in the aggregated form
	kinds     []*api.Kind // by resource
	elsewhere *apidiscoveryv2.APIVersionDiscovery
	removed   bool
}

// rank is what an APIService says of the place of its group and of its version.
type rank struct{ group, version int32 }

// ranks are those of what is told in the aggregated form.
func (in *Input) ranks() map[schema.GroupVersion]rank {
	out := map[schema.GroupVersion]rank{}
	add := func(all []*apiregistrationv1.APIService, remote bool) {
		for _, s := range all {
			if gv := (schema.GroupVersion{Group: s.Spec.Group, Version: s.Spec.Version}); (in.Elsewhere[gv] != nil) == remote {
				out[gv] = rank{s.Spec.GroupPriorityMinimum, s.Spec.VersionPriority}
			}
		}
	}
	add(in.Own, false)
	add(in.Services, true)
	return out
}

// listed are the versions that the plain lists tell of.
func (g *group) listed() []*groupVersion {
	if !slices.ContainsFunc(g.versions, func(v *groupVersion) bool { return v.removed }) {
		return g.versions
	}
	return slices.DeleteFunc(slices.Clone(g.versions), func(v *groupVersion) bool { return v.removed })
}

func newContent(in Input, config Config) *content {
	c := &content{config: config, byName: map[string]*group{}, peers: in.Peers}
	for _, kind := range in.Kinds {
		for _, v := range kind.Versions {
			if v.Unserved || in.Elsewhere[v.GroupVersion] != nil {
				continue
			}
			gv := c.group(v.Group).version(v.Version)
			gv.kinds, gv.removed = append(gv.kinds, kind), in.Removed[v.GroupVersion]
		}
	}
	for gv, described := range in.Elsewhere {
		c.group(gv.Group).version(gv.Version).elsewhere = described
	}
	for _, s := range in.Services {
		c.group(s.Spec.Group).version(s.Spec.Version).priority = s.Spec.VersionPriority
	}
	ranks := in.ranks()
	for _, g := range c.byName {
		g.arrange(ranks)
	}
	c.arrange(in.Services)
	return c
}

// arrange puts the versions into the two orders in which they are told.
func (g *group) arrange(ranks map[schema.GroupVersion]rank) {
	for _, v := range g.versions {
		slices.SortFunc(v.kinds, func(a, b *api.Kind) int { return strings.Compare(a.Resource, b.Resource) })
		if v.elsewhere != nil || len(v.kinds) > 0 {
			v.rank = ranks[schema.GroupVersion{Group: g.name, Version: v.name}]
			g.priority = max(g.priority, v.rank.group)
		}
	}
	g.told = slices.Clone(g.versions)
	byKubeVersion := func(a, b *groupVersion) int { return version.CompareKubeAwareVersionStrings(b.name, a.name) }
	slices.SortFunc(g.versions,
		func(a, b *groupVersion) int { return cmp.Or(cmp.Compare(b.priority, a.priority), byKubeVersion(a, b)) })
	slices.SortFunc(g.told, func(a, b *groupVersion) int {
		return cmp.Or(cmp.Compare(b.rank.version, a.rank.version), byKubeVersion(a, b))
	})
}

// first is the group of the APIServices themselves. It has none, and comes first.
const first = apiregistrationv1.GroupName

// arrange puts the groups into the two orders in which upstream tells them: both by priority, and of groups with the
// same one, the plain form by the name of the first APIService, the aggregated form by their own.
func (c *content) arrange(services []*apiregistrationv1.APIService) {
	for _, g := range c.byName {
		c.byPriority = append(c.byPriority, g)
	}
	slices.SortFunc(c.byPriority, func(a, b *group) int {
		return cmp.Or(cmp.Compare(apart(a), apart(b)), cmp.Compare(b.priority, a.priority),
			strings.Compare(a.name, b.name))
	})
	seen := map[*group]bool{}
	add := func(g *group) {
		if g != nil && !seen[g] {
			seen[g] = true
			c.byService = append(c.byService, g)
		}
	}
	add(c.byName[first])
	for _, of := range helper.SortedByGroupAndVersion(slices.Clone(services)) {
		add(c.byName[of[0].Spec.Group])
	}
	for _, g := range c.byPriority {
		add(g)
	}
}

func apart(g *group) int {
	if g.name == first {
		return 0
	}
	return 1
}

func (c *content) group(name string) *group {
	g := c.byName[name]
	if g == nil {
		g = &group{name: name}
		c.byName[name] = g
	}
	return g
}

func (g *group) find(version string) *groupVersion {
	if g == nil {
		return nil
	}
	for _, v := range g.versions {
		if v.name == version {
			return v
		}
	}
	return nil
}

func (g *group) version(name string) *groupVersion {
	v := g.find(name)
	if v == nil {
		v = &groupVersion{name: name}
		g.versions = append(g.versions, v)
	}
	return v
}

// place tells how a path is answered.
type place int

const (
	nowhere place = iota
	// own are the paths that tell of what the program has itself: they know but one method.
	own
	// aggregate are those that are made of what all servers tell: any method gets the same.
	aggregate
	// beside is a version that a group of the program itself doesn't have.
	beside
)

func (c *content) place(path string) place {
	switch path {
	case "/api":
		return own
	case "/apis":
		return aggregate
	}
	g, v := c.find(path)
	switch {
	case v != nil && v.builtIn(), v == nil && g != nil && g.name == first:
		return own
	case v != nil, g != nil:
		return aggregate
	case c.byName[groupIn(path)].builtIn():
		return beside
	}
	return nowhere
}

// groupIn is the group that a path names.
func groupIn(path string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(path, "/apis/"), "/")
	if strings.HasPrefix(path, "/api/") {
		return ""
	}
	return name
}

// builtIn tells whether the kinds are the program's.
func (v *groupVersion) builtIn() bool { return len(v.kinds) > 0 && v.kinds[0].Custom == nil }

func (g *group) builtIn() bool {
	return g != nil && slices.ContainsFunc(g.versions, (*groupVersion).builtIn)
}

// find returns the group that a path names, or the version, if it is served here.
func (c *content) find(path string) (*group, *groupVersion) {
	if rest, ok := strings.CutPrefix(path, "/apis/"); ok {
		name, version, versioned := strings.Cut(rest, "/")
		if !versioned {
			return c.named(name), nil
		}
		return c.served(name, version)
	}
	return c.served("", strings.TrimPrefix(path, "/api/"))
}

// named finds a group by the name that is in a path; the core group has none.
func (c *content) named(name string) *group {
	if name == "" {
		return nil
	}
	return c.byName[name]
}

// served finds a version that can be asked for: custom resources can't in a group of the program.
func (c *content) served(name, version string) (*group, *groupVersion) {
	g := c.byName[name]
	if v := g.find(version); v != nil && len(v.kinds) > 0 && (v.builtIn() || !g.builtIn()) {
		return g, v
	}
	return nil, nil
}
