package openapi

import (
	"encoding/json"
	"net/http"
	"strings"
)

func (c *content) serveV2(w http.ResponseWriter, r *http.Request, others []sourced) {
	var all strings.Builder
	for i := range c.groups {
		all.WriteString(c.groups[i].hash)
	}
	c.serve(w, r, documentKey{path: "v2"}, hashOf(shorten(all.String()), others), v2Types, func() ([]byte, error) {
		own, err := c.documentV2()
		if err != nil || len(others) == 0 {
			return own, err
		}
		return merge(own, others)
	})
}

// documentV2 writes the one document for all group versions.
func (c *content) documentV2() ([]byte, error) {
	var operations []operation
	for i := range c.groups {
		operations = append(operations, c.groups[i].operations()...)
	}
	definitions, err := customDefinitions(c.groups, true)
	if err != nil {
		return nil, err
	}
	loaded, err := closure(builtIn(models(operations), definitions))
	if err != nil {
		return nil, err
	}
	for _, name := range sortedNames(loaded) {
		definitions[name] = loaded[name].V2
	}
	paths := map[string]object{}
	for i := range operations {
		o := &operations[i]
		if paths[o.path] == nil {
			paths[o.path] = object{"parameters": parametersV2(append(pathParameters(o.path), pretty))}
		}
		paths[o.path][o.method] = o.v2()
	}
	return json.Marshal(object{
		"swagger":             "2.0",
		"info":                object{"title": "Kubernetes", "version": c.version},
		"paths":               paths,
		"definitions":         definitions,
		"securityDefinitions": object{"BearerToken": bearerToken},
		"security":            []object{{"BearerToken": []string{}}},
	})
}

func parametersV2(ps []parameter) []object {
	out := make([]object, len(ps))
	for i, p := range ps {
		out[i] = object{"name": p.name, "in": p.place(), "description": p.description, "type": p.kind, "uniqueItems": true}
		if p.inPath {
			out[i]["required"] = true
		}
	}
	return out
}

func (o *operation) v2() object {
	out := object{
		"operationId": o.id, "description": o.description, "tags": []string{o.tag}, "schemes": []string{"https"},
		"consumes": []string{"*/*"}, "produces": o.mediaTypes(),
		"x-kubernetes-action":             o.action,
		"x-kubernetes-group-version-kind": gvkObject(o),
	}
	parameters := parametersV2(o.query)
	if o.body != "" {
		parameters = append(parameters, object{
			"name": "body", "in": "body", "required": o.body != deleteOptions, "schema": object{"$ref": "#/definitions/" + o.body},
		})
	}
	if len(parameters) > 0 {
		out["parameters"] = parameters
	}
	switch {
	case o.patch:
		out["consumes"] = o.patchTypes()
	case o.response == "":
		out["produces"] = []string{"*/*"}
	case o.watch:
		out["produces"] = o.streamTypes()
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
	return out
}
