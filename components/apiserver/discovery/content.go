package discovery

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/version"

	"quintet.dev/quintet/components/apiserver/kinds"
)

// group is an API group with its versions, preferred first.
type group struct {
	name     string
	versions []*groupVersion
}

type groupVersion struct {
	name  string
	kinds []*kinds.Kind // by resource
}

// groupOrder is the order in which clients look for a short name: upstream's groups by falling priority. Others follow by
// name.
var groupOrder = []string{
	"", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "autoscaling",
	"batch", "certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io", "storage.k8s.io",
	"admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io", "coordination.k8s.io", "node.k8s.io",
	"discovery.k8s.io", "resource.k8s.io", "flowcontrol.apiserver.k8s.io",
}

func newContent(table []*kinds.Kind, address string) *content {
	c := &content{address: address}
	for _, kind := range table {
		for _, v := range kind.Versions {
			if v.Unserved {
				continue
			}
			gv := c.group(v.Group).version(v.Version)
			gv.kinds = append(gv.kinds, kind)
		}
	}
	slices.SortFunc(c.groups, func(a, b *group) int {
		return cmp.Or(cmp.Compare(priority(a.name), priority(b.name)), strings.Compare(a.name, b.name))
	})
	for _, g := range c.groups {
		slices.SortFunc(g.versions, func(a, b *groupVersion) int { return version.CompareKubeAwareVersionStrings(b.name, a.name) })
		for _, v := range g.versions {
			slices.SortFunc(v.kinds, func(a, b *kinds.Kind) int { return strings.Compare(a.Resource, b.Resource) })
		}
	}
	return c
}

func priority(group string) int {
	if i := slices.Index(groupOrder, group); i >= 0 {
		return i
	}
	return len(groupOrder)
}

func (c *content) group(name string) *group {
	for _, g := range c.groups {
		if g.name == name {
			return g
		}
	}
	g := &group{name: name}
	c.groups = append(c.groups, g)
	return g
}

func (g *group) version(name string) *groupVersion {
	for _, v := range g.versions {
		if v.name == name {
			return v
		}
	}
	v := &groupVersion{name: name}
	g.versions = append(g.versions, v)
	return v
}

// has reports whether a path is answered.
func (c *content) has(path string) bool {
	if path == "/api" || path == "/apis" {
		return true
	}
	g, v := c.find(path)
	return v != nil || g != nil && g.name != "" && path == "/apis/"+g.name
}

// find returns the group, and the version, that a path names.
func (c *content) find(path string) (*group, *groupVersion) {
	for _, g := range c.groups {
		if g.name != "" && path == "/apis/"+g.name {
			return g, nil
		}
		rest, ok := strings.CutPrefix(path, root(g.name))
		if !ok {
			continue
		}
		for _, v := range g.versions {
			if v.name == rest {
				return g, v
			}
		}
	}
	return nil, nil
}
