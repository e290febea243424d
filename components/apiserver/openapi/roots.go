package openapi

import (
	"fmt"
	"strings"
)

// discovery is the operation that lists a group version's resources.
func (g *groupVersion) discovery() operation {
	return operation{path: "/" + g.path() + "/", method: "get", id: "get" + g.idPart() + "APIResources",
		description: "get available resources",
		tag:         g.tag(), consumes: objectTypes, produces: objectTypes, response: metaModel + "APIResourceList",
		codes: []string{"200"}}
}

// roots lists what the server itself answers, and its own groups, each of which has a document of OpenAPI v3. Groups of
// custom resources have none.
func (c *content) roots() []operation {
	telling := func(path, id, tag, description, model string) operation {
		return operation{path: "/" + path + "/", method: "get", id: id, description: description, tag: tag,
			consumes: objectTypes, produces: objectTypes, response: model, codes: []string{"200"}}
	}
	answering := func(path, id, tag, description, model, media string) operation {
		r := telling(path, id, tag, description, model)
		r.consumes, r.produces = nil, []string{media}
		return r
	}
	out := []operation{
		telling("api", "getCoreAPIVersions", "core", "get available API versions", metaModel+"APIVersions"),
		telling("apis", "getAPIVersions", "apis", "get available API versions", metaModel+"APIGroupList"),
		answering("version", "getCodeVersion", "version", "get the version information for this server",
			"io.k8s.apimachinery.pkg.version.Info", "application/json"),
		answering(".well-known/openid-configuration", "getServiceAccountIssuerOpenIDConfiguration", "WellKnown",
			"get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'", "",
			"application/json"),
		answering("openid/v1/jwks", "getServiceAccountIssuerOpenIDKeyset", "openid",
			"get service account issuer OpenID JSON Web Key Set (contains public token verification keys)", "",
			"application/jwk-set+json"),
	}
	out[2].consumes = []string{"application/json"}
	seen := map[string]bool{"": true}
	for i := range c.groups {
		g := &c.groups[i]
		if seen[g.Group] || g.custom() {
			continue
		}
		seen[g.Group] = true
		out = append(out, telling("apis/"+g.Group, "get"+idPart(g.Group)+"APIGroup", groupTag(g.Group),
			"get information of a group",
			metaModel+"APIGroup"))
	}
	return out
}

// place is where the document of a root lies below /openapi/v3.
func (o *operation) place() string { return strings.Trim(o.path, "/") }

// findRoot finds the root whose document lies at a path.
func (c *content) findRoot(path string) *operation {
	all := c.roots()
	for i := range all {
		if all[i].place() == path {
			return &all[i]
		}
	}
	return nil
}

// rootHash names the content of a root's document.
func (c *content) rootHash(o *operation) string {
	return shorten(fmt.Sprint(c.version, fingerprint(), o.path, c.form))
}
