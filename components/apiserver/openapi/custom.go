package openapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Schemas are the named schemas and all that they refer to, as OpenAPI v3.
func Schemas(names ...string) (map[string]*spec.Schema, error) {
	loaded, err := closure(names)
	if err != nil {
		return nil, err
	}
	out := make(map[string]*spec.Schema, len(loaded))
	for name, d := range loaded {
		s := &spec.Schema{}
		if err := json.Unmarshal(d.V3, s); err != nil {
			return nil, fmt.Errorf("openapi: schema of %s: %w", name, err)
		}
		out[name] = s
	}
	return out, nil
}

// Names of models: those that schemas of custom resources refer to, that of their definitions, and some that others
// than documents need.
const (
	ObjectMeta   = metaModel + "ObjectMeta"
	ListMeta     = metaModel + "ListMeta"
	TokenRequest = "io.k8s.api.authentication.v1.TokenRequest"
	Binding      = "io.k8s.api.core.v1.Binding"
	TokenReview  = "io.k8s.api.authentication.v1.TokenReview"
	SelfReview   = "io.k8s.api.authentication.v1.SelfSubjectReview"
	AccessReview = "io.k8s.api.authorization.v1.SubjectAccessReview"
	LocalReview  = "io.k8s.api.authorization.v1.LocalSubjectAccessReview"
	OwnReview    = "io.k8s.api.authorization.v1.SelfSubjectAccessReview"
	RulesReview  = "io.k8s.api.authorization.v1.SelfSubjectRulesReview"
	Scale        = "io.k8s.api.autoscaling.v1.Scale"
	Definition   = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
	APIService   = "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService"
)

var metadataModels = []string{ObjectMeta, ListMeta}

// customDefinitions are the schemas of the custom resources among groups.
func customDefinitions(groups []groupVersion, v2 bool) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	for _, g := range groups {
		for _, kind := range g.kinds {
			if kind.Custom == nil {
				continue
			}
			more, err := kind.Custom.Definitions(g.Version, v2)
			if err != nil {
				return nil, err
			}
			maps.Copy(out, more)
		}
	}
	return out, nil
}

// builtIn are those of names that the program has itself, with what the custom ones refer to.
func builtIn(names []string, custom map[string]json.RawMessage) []string {
	if len(custom) == 0 {
		return names
	}
	names = slices.DeleteFunc(names, func(name string) bool { return custom[name] != nil })
	return append(names, metadataModels...)
}

// keepApart gives custom schemas, and the operations that speak of them, other names than those that the program has
// itself.
func keepApart(custom map[string]json.RawMessage, operations []operation,
	own map[string]definition) map[string]json.RawMessage {
	renamed := map[string]string{}
	var refs []string
	for name := range custom {
		if _, taken := own[name]; !taken {
			continue
		}
		other := name
		for n := 2; own[other].V2 != nil || custom[other] != nil; n++ {
			other = fmt.Sprintf("%s_v%d", name, n)
		}
		renamed[name] = other
		refs = append(refs, strconv.Quote("#/definitions/"+name), strconv.Quote("#/definitions/"+other))
	}
	if len(renamed) == 0 {
		return custom
	}
	rename, out := strings.NewReplacer(refs...), make(map[string]json.RawMessage, len(custom))
	for name, schema := range custom {
		out[cmp.Or(renamed[name], name)] = json.RawMessage(rename.Replace(string(schema)))
	}
	for i := range operations {
		o := &operations[i]
		o.body, o.response = cmp.Or(renamed[o.body], o.body), cmp.Or(renamed[o.response], o.response)
	}
	return out
}
