package discovery

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// plain makes the document of a path that there is, for clients within the range that has an address of its own, or
// not.
func (c *content) plain(path string, within bool) runtime.Object {
	switch path {
	case "/api":
		versions := &metav1.APIVersions{
			Versions: []string{},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{
				{ClientCIDR: "0.0.0.0/0", ServerAddress: c.config.Address},
			},
		}
		if within {
			versions.ServerAddressByClientCIDRs = append(versions.ServerAddressByClientCIDRs,
				metav1.ServerAddressByClientCIDR{
					ClientCIDR: c.config.Within.Range.String(), ServerAddress: c.config.Within.Address,
				})
		}
		if g := c.byName[""]; g != nil {
			for _, v := range g.versions {
				versions.Versions = append(versions.Versions, v.name)
			}
		}
		return versions
	case "/apis":
		list := &metav1.APIGroupList{Groups: []metav1.APIGroup{}}
		for _, g := range c.byService {
			if versions := g.listed(); g.name != "" && len(versions) > 0 {
				list.Groups = append(list.Groups, apiGroup(g.name, versions))
			}
		}
		return list
	}
	g, v := c.find(path)
	if v == nil {
		versions := g.listed()
		if len(versions) == 0 {
			versions = g.versions // as who asks for the group itself is answered without the APIServices then
		}
		one := apiGroup(g.name, versions)
		return &one
	}
	gv := schema.GroupVersion{Group: g.name, Version: v.name}
	list := &metav1.APIResourceList{GroupVersion: gv.String(), APIResources: []metav1.APIResource{}}
	for _, kind := range v.kinds {
		list.APIResources = append(list.APIResources, c.apiResources(kind, gv)...)
	}
	return list
}

func apiGroup(name string, versions []*groupVersion) metav1.APIGroup {
	out := metav1.APIGroup{Name: name}
	for _, v := range versions {
		out.Versions = append(out.Versions,
			metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + v.name, Version: v.name})
	}
	out.PreferredVersion = out.Versions[0]
	return out
}

// apiResources are a kind and its subresources.
func (c *content) apiResources(kind *api.Kind, gv schema.GroupVersion) []metav1.APIResource {
	main := metav1.APIResource{
		Name: kind.Resource, SingularName: kind.Singular, Namespaced: kind.Namespaced, Kind: kind.Name,
		Verbs:      verbs(kind),
		ShortNames: kind.ShortNames, Categories: kind.Categories,
	}
	if c.hashed(kind) {
		main.StorageVersionHash = storageVersionHash(kind.StoredAs())
	}
	out := []metav1.APIResource{main}
	subresources := kind.SubresourcesIn(gv)
	for i := range subresources {
		sub := &subresources[i]
		r := metav1.APIResource{Name: kind.Resource + "/" + sub.Name, Namespaced: kind.Namespaced, Verbs: sub.Verbs}
		body := bodyOf(kind, sub, gv)
		r.Kind = body.Kind
		if body.GroupVersion() != gv {
			r.Group, r.Version = body.Group, body.Version
		}
		out = append(out, r)
	}
	if kind.Custom == nil {
		slices.SortFunc(out, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
	}
	return out
}

// hashed tells whether clients are told in which version objects are stored; of a custom resource they are if that is
// served, whatever the gate says.
func (c *content) hashed(kind *api.Kind) bool {
	if kind.Custom != nil {
		return !kind.HubVersion().Unserved
	}
	return c.config.Hashes && !kind.Virtual()
}

func verbs(kind *api.Kind) []string {
	switch {
	case kind.Custom != nil && kind.Custom.Ending():
		return []string{"delete", "deletecollection", "get", "list", "watch"}
	case kind.Custom != nil:
		// in upstream's order
		return []string{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
	case kind.Verbs == nil:
		return api.AllVerbs()
	}
	return kind.Verbs
}

// connections are the subresources whose request is made of options in the query; their kind is named after these.
var connections = map[string]string{
	"attach": "AttachOptions", "exec": "ExecOptions", "portforward": "PortForwardOptions", "proxy": "ProxyOptions",
}

// bodyOf is the kind that a subresource takes and gives in a version of its parent.
func bodyOf(kind *api.Kind, sub *api.Subresource, gv schema.GroupVersion) schema.GroupVersionKind {
	if !sub.Body.Empty() {
		return sub.Body
	}
	if options, ok := connections[sub.Name]; ok {
		return gv.WithKind(kind.Name + options)
	}
	return gv.WithKind(kind.Name)
}

// storageVersionHash lets clients see that two resources are stored as one. The value is upstream's: eight bytes of a
// SHA-256.
func storageVersionHash(stored schema.GroupVersionKind) string {
	sum := sha256.Sum256([]byte(stored.Group + "/" + stored.Version + "/" + stored.Kind))
	return base64.StdEncoding.EncodeToString(sum[:8])
}
