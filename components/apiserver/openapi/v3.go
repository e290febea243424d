package openapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// object is JSON in the making; encoding/json sorts its keys.
type object = map[string]any

// serveIndex tells which documents there are, each with the hash of its content in its address, so that clients and
// proxies may keep them for ever.
func (c *content) serveIndex(w http.ResponseWriter, r *http.Request, others map[string]string) {
	paths := object{}
	for _, o := range c.roots() {
		paths[o.place()] = object{"serverRelativeURL": addressV3(o.place(), c.rootHash(&o))}
	}
	for i := range c.groups {
		g := &c.groups[i]
		paths[g.path()] = object{"serverRelativeURL": addressV3(g.path(), g.hash())}
	}
	for path, at := range others {
		paths[path] = object{"serverRelativeURL": at}
	}
	body, err := json.Marshal(object{"paths": paths})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8") // as upstream's aggregator
	http.ServeContent(w, r, "", time.Now(), bytes.NewReader(body))
}

func addressV3(path, hash string) string {
	return "/openapi/v3/" + path + "?" + url.Values{"hash": {hash}}.Encode()
}

func (c *content) serveV3(w http.ResponseWriter, r *http.Request, g *groupVersion) {
	c.serveHashed(w, r, g.path(), g.hash(), func() ([]byte, error) { return c.documentV3(g) })
}

// serveHashed answers with the document of a path, whose address has its hash.
func (c *content) serveHashed(w http.ResponseWriter, r *http.Request, path, hash string, write func() ([]byte, error)) {
	f, ok := v3Types.accepted(w, r)
	if !ok {
		return
	}
	if asked := r.URL.Query().Get("hash"); asked != "" {
		if asked != hash {
			w.Header().Set("ETag", strconv.Quote(hash))
			http.Redirect(w, r, addressV3(path, hash), http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Expires", time.Now().UTC().AddDate(1, 0, 0).Format(time.RFC1123))
		w.Header().Set("Cache-Control", "public, immutable")
	}
	c.serve(w, r, documentKey{path: path, proto: f == protobuf}, hash, v3Types, write)
}

// documentV3 writes the document of a group version.
func (c *content) documentV3(g *groupVersion) ([]byte, error) {
	schemas, err := customDefinitions([]groupVersion{*g}, false)
	if err != nil {
		return nil, err
	}
	if g.custom() {
		return c.writeV3(object{"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}, g.operations(), schemas, nil,
			g.GroupVersion, true)
	}
	return c.writeV3(c.info(), g.operations(), schemas, bearerToken, g.GroupVersion, false)
}

// documentOfRoot writes the document of one operation.
func (c *content) documentOfRoot(o *operation) ([]byte, error) {
	return c.writeV3(c.info(), []operation{*o}, map[string]json.RawMessage{}, bearerToken, schema.GroupVersion{}, false)
}

// writeV3 writes a document; schemas are those that the program doesn't have itself.
func (c *content) writeV3(info object, operations []operation, schemas map[string]json.RawMessage, security object,
	gv schema.GroupVersion, custom bool) ([]byte, error) {
	definitions, err := c.closure(builtIn(models(operations), schemas))
	if err != nil {
		return nil, err
	}
	for name, d := range definitions {
		schemas[name] = d.V3
	}
	versions := []schema.GroupVersion{{Version: "v1"}}
	switch {
	case custom:
		versions = clientVersions()
	case gv.Group != "":
		versions = append(versions, gv)
	}
	if err := knownIn(schemas, versions); err != nil {
		return nil, err
	}
	paths := map[string]object{}
	for path, all := range byPath(operations) {
		item := object{}
		if ps := common(all); len(ps) > 0 {
			item["parameters"] = parametersV3(ps)
		}
		for _, o := range all {
			item[o.method] = o.v3()
		}
		paths[path] = item
	}
	components := object{}
	if len(schemas) > 0 {
		components["schemas"] = schemas
	}
	if security != nil {
		components["securitySchemes"] = object{"BearerToken": security}
	}
	return json.Marshal(object{"openapi": "3.0.0", "info": info, "paths": paths, "components": components})
}

func byPath(operations []operation) map[string][]*operation {
	out := map[string][]*operation{}
	for i := range operations {
		o := &operations[i]
		out[o.path] = append(out[o.path], o)
	}
	return out
}

var bearerToken = object{"type": "apiKey", "name": "authorization", "in": "header",
	"description": "Bearer Token authentication"}

// models are the schemas that operations name.
func models(operations []operation) []string {
	var names []string
	for i := range operations {
		for _, name := range []string{operations[i].body, operations[i].response} {
			if name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

func (o *operation) v3() object {
	out := object{"operationId": o.id, "description": o.description, "tags": []string{o.tag}}
	o.extend(out)
	if len(o.parameters) > 0 {
		out["parameters"] = parametersV3(o.parameters)
	}
	if o.body != "" {
		body := object{"content": contentV3(o.consumes, o.body)}
		if o.body != deleteOptions {
			body["required"] = true
		}
		out["requestBody"] = body
	}
	responses := object{"401": object{"description": "Unauthorized"}}
	for _, code := range o.codes {
		responses[code] = object{"description": statusText[code], "content": contentV3(o.produces, o.response)}
	}
	out["responses"] = responses
	return out
}

// extend says which verb of which kind it is, if it is one.
func (o *operation) extend(out object) {
	if o.action != "" {
		out["x-kubernetes-action"] = o.action
		out["x-kubernetes-group-version-kind"] = object{"group": o.kind.Group, "version": o.kind.Version,
			"kind": o.kind.Kind}
	}
}

var statusText = map[string]string{"200": "OK", "201": "Created", "202": "Accepted"}

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
