package openapi

import (
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// object is JSON in the making; encoding/json sorts its keys.
type object = map[string]any

// serveIndex tells which documents there are, each with the hash of its content in its address, so that clients and
// proxies may keep them for ever.
func (c *content) serveIndex(w http.ResponseWriter, others map[string]string) {
	paths := object{}
	for i := range c.groups {
		g := &c.groups[i]
		paths[g.path()] = object{"serverRelativeURL": addressV3(g.path(), g.hash)}
	}
	for path, at := range others {
		paths[path] = object{"serverRelativeURL": at}
	}
	body, err := json.Marshal(object{"paths": paths})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

const year = 365 * 24 * time.Hour

func addressV3(path, hash string) string {
	return "/openapi/v3/" + path + "?" + url.Values{"hash": {hash}}.Encode()
}

func (c *content) serveV3(w http.ResponseWriter, r *http.Request, g *groupVersion) {
	c.serveHashed(w, r, g.path(), g.hash, func() ([]byte, error) { return c.documentV3(g) })
}

// serveHashed answers with the document of a path, whose address has its hash.
func (c *content) serveHashed(w http.ResponseWriter, r *http.Request, path, hash string, write func() ([]byte, error)) {
	if asked := r.URL.Query().Get("hash"); asked != "" {
		if asked != hash {
			http.Redirect(w, r, addressV3(path, hash), http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Expires", time.Now().Add(year).UTC().Format(http.TimeFormat))
		w.Header().Set("Cache-Control", "public, immutable")
	}
	c.serve(w, r, documentKey{path: path}, hash, v3Types, write)
}

// documentV3 writes the document of a group version.
func (c *content) documentV3(g *groupVersion) ([]byte, error) {
	operations := g.operations()
	schemas, err := customDefinitions([]groupVersion{*g}, false)
	if err != nil {
		return nil, err
	}
	definitions, err := closure(builtIn(models(operations), schemas))
	if err != nil {
		return nil, err
	}
	for name, d := range definitions {
		schemas[name] = d.V3
	}
	paths := map[string]object{}
	for i := range operations {
		o := &operations[i]
		if paths[o.path] == nil {
			paths[o.path] = object{"parameters": parametersV3(append(pathParameters(o.path), pretty))}
		}
		paths[o.path][o.method] = o.v3()
	}
	return json.Marshal(object{
		"openapi": "3.0.0",
		"info":    object{"title": "Kubernetes", "version": c.version},
		"paths":   paths,
		"components": object{
			"schemas":         schemas,
			"securitySchemes": object{"BearerToken": bearerToken},
		},
	})
}

var bearerToken = object{"type": "apiKey", "name": "authorization", "in": "header", "description": "Bearer Token authentication"}

// models are the schemas that operations name.
func models(operations []operation) []string {
	names := []string{statusModel, deleteOptions, metaModel + "WatchEvent"}
	for i := range operations {
		for _, name := range []string{operations[i].body, operations[i].response} {
			if name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

func parametersV3(ps []parameter) []object {
	out := make([]object, len(ps))
	for i, p := range ps {
		out[i] = object{"name": p.name, "in": p.place(), "description": p.description, "schema": object{"type": p.kind, "uniqueItems": true}}
		if p.inPath {
			out[i]["required"] = true
		}
	}
	return out
}

func (p parameter) place() string {
	if p.inPath {
		return "path"
	}
	return "query"
}

// Media types of objects, of streams of them, and of patches.
var (
	objectTypes = []string{"application/json", "application/vnd.kubernetes.protobuf", "application/yaml"}
	streamTypes = []string{"application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"}
	patchTypes  = []string{
		"application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
	}
)

func (o *operation) v3() object {
	out := object{
		"operationId": o.id, "description": o.description, "tags": []string{o.tag},
		"x-kubernetes-action":             o.action,
		"x-kubernetes-group-version-kind": gvkObject(o),
	}
	if len(o.query) > 0 {
		out["parameters"] = parametersV3(o.query)
	}
	if o.body != "" {
		types := []string{"*/*"}
		if o.patch {
			types = o.patchTypes()
		}
		out["requestBody"] = object{"content": contentV3(types, o.body), "required": o.body != deleteOptions}
	}
	responses := object{"401": object{"description": "Unauthorized"}}
	for _, code := range o.codes {
		types := o.mediaTypes()
		switch {
		case o.response == "":
			types = []string{"*/*"}
		case o.watch:
			types = o.streamTypes()
		}
		responses[code] = object{"description": statusText[code], "content": contentV3(types, o.response)}
	}
	out["responses"] = responses
	return out
}

var statusText = map[string]string{"200": "OK", "201": "Created", "202": "Accepted"}

func gvkObject(o *operation) object {
	return object{"group": o.kind.Group, "version": o.kind.Version, "kind": o.kind.Kind}
}

func contentV3(types []string, model string) object {
	schema := object{"type": "string"}
	if model != "" {
		schema = object{"$ref": "#/components/schemas/" + model}
	}
	out := object{}
	for _, t := range types {
		out[t] = object{"schema": schema}
	}
	return out
}
