package openapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

func (c *content) serveV2(w http.ResponseWriter, r *http.Request, others []sourced) {
	var all strings.Builder
	for _, g := range c.groupsV2() {
		all.WriteString(g.hash())
	}
	w.Header().Add("Vary", "Accept-Encoding")
	f, ok := v2Types.accepted(w, r)
	if !ok {
		return
	}
	if r.Method != http.MethodHead && r.Header.Get("Range") == "" && takesGzip(r.Header.Get("Accept-Encoding")) {
		w.Header().Set("Content-Encoding", "gzip")
	}
	c.serve(w, r, documentKey{path: "v2", proto: f == protobuf}, hashOf(shorten(all.String()), others), v2Types,
		func() ([]byte, error) {
			own, err := c.documentV2()
			if err != nil || len(others) == 0 {
				return own, err
			}
			return merge(own, others)
		})
}

// takesGzip reads an Accept-Encoding, of which the last word on gzip counts. As with upstream, a wildcard says nothing
// of it.
func takesGzip(accepted string) bool {
	takes := false
	for coding := range strings.SplitSeq(accepted, ",") {
		name, params, _ := strings.Cut(coding, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		quality := 1.0
		for param := range strings.SplitSeq(params, ";") {
			if text, ok := strings.CutPrefix(strings.TrimSpace(param), "q="); ok {
				quality, _ = strconv.ParseFloat(text, 64) // 0 if it is no number
			}
		}
		takes = quality > 0
	}
	return takes
}

// groupsV2 are those that the document tells of.
func (c *content) groupsV2() []groupVersion { return slices.Concat(c.groups, c.onlyV2) }

// documentV2 writes the one document for all group versions.
func (c *content) documentV2() ([]byte, error) {
	operations, custom := c.roots(), []operation(nil)
	groups := c.groupsV2()
	for i := range groups {
		if g := &groups[i]; g.custom() {
			custom = append(custom, g.operations()...)
		} else {
			operations = append(operations, g.operations()...)
		}
	}
	definitions, err := customDefinitions(groups, true)
	if err != nil {
		return nil, err
	}
	loaded, err := c.closure(append(models(operations), builtIn(models(custom), definitions)...))
	if err != nil {
		return nil, err
	}
	definitions = keepApart(definitions, custom, loaded)
	operations = append(operations, custom...)
	for _, name := range sortedNames(loaded) {
		definitions[name] = loaded[name].V2
	}
	if err := knownIn(definitions, serverVersions()); err != nil {
		return nil, err
	}
	paths, parameters := map[string]object{}, shared{}
	for path, all := range byPath(operations) {
		if paths[path], err = pathV2(all, parameters); err != nil {
			return nil, err
		}
	}
	return json.Marshal(object{
		"swagger":             "2.0",
		"info":                c.info(),
		"paths":               paths,
		"definitions":         definitions,
		"parameters":          parameters,
		"securityDefinitions": object{"BearerToken": bearerToken},
		"security":            []object{{"BearerToken": []string{}}},
	})
}

// pathV2 writes the operations of a path.
func pathV2(all []*operation, parameters shared) (object, error) {
	item := object{}
	if ps := common(all); len(ps) > 0 {
		list, err := parameters.list(ps, nil)
		if err != nil {
			return nil, err
		}
		item["parameters"] = list
	}
	for _, o := range all {
		one, err := o.v2(parameters)
		if err != nil {
			return nil, err
		}
		item[o.method] = one
	}
	return item, nil
}

func (o *operation) v2(parameters shared) (object, error) {
	out := object{
		"operationId": o.id, "description": o.description, "tags": []string{o.tag}, "schemes": []string{"https"},
		"produces": o.produces,
	}
	o.extend(out)
	if len(o.consumes) > 0 {
		out["consumes"] = o.consumes
	}
	list, err := parameters.list(o.parameters, o.bodyV2())
	if err != nil {
		return nil, err
	}
	if len(list) > 0 {
		out["parameters"] = list
	}
	schema := object{"type": "string"}
	if o.response != "" {
		schema = object{"$ref": "#/definitions/" + o.response}
	}
	responses := object{"401": object{"description": "Unauthorized"}}
	for _, code := range o.codes {
		responses[code] = object{"description": statusText[code], "schema": schema}
	}
	out["responses"] = responses
	return out, nil
}

// bodyV2 is the body as a parameter, nil if there is none.
func (o *operation) bodyV2() *spec.Parameter {
	if o.body == "" {
		return nil
	}
	return &spec.Parameter{ParamProps: spec.ParamProps{
		Name: "body", In: "body", Required: o.body != deleteOptions, Schema: spec.RefSchema("#/definitions/" + o.body),
	}}
}
