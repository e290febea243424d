package openapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/aggregator"
	"k8s.io/kube-openapi/pkg/openapiconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Source is another server, which documents a group version that it serves. Its methods may have to ask it.
type Source interface {
	GroupVersion() schema.GroupVersion
	// DocumentV2 is its whole document in OpenAPI v2; nil if there is none.
	DocumentV2(ctx context.Context) *Document
	// PathsV3 are the URLs, below this server's root, of its documents in OpenAPI v3, by paths as in
	// "apis/<group>/<version>"; nil if it has none.
	PathsV3(ctx context.Context) map[string]string
	// Handler answers requests for these URLs.
	http.Handler
}

// Document is an OpenAPI document as JSON. Hash stands for its content.
type Document struct {
	Hash string
	Body []byte
}

// elsewhere is what other servers tell. It is immutable.
type elsewhere []Source

// documentsV2 asks all at once. Those that have none are left out.
func (e elsewhere) documentsV2(ctx context.Context) []sourced {
	all := make([]sourced, len(e))
	var asking sync.WaitGroup
	for i, source := range e {
		asking.Go(func() { all[i] = sourced{source, source.DocumentV2(ctx)} })
	}
	asking.Wait()
	return slices.DeleteFunc(all, func(s sourced) bool { return s.Document == nil })
}

// sourced is a document, and whose it is.
type sourced struct {
	Source
	*Document
}

// prefix is that of the paths of the group version.
func prefix(gv schema.GroupVersion) string { return "/apis/" + gv.Group + "/" + gv.Version + "/" }

// merge adds to a document what others say of their group versions. Definitions of the same name and another content
// get new names.
func merge(own []byte, others []sourced) ([]byte, error) {
	all := &spec.Swagger{}
	if err := json.Unmarshal(own, all); err != nil {
		return nil, err
	}
	for _, other := range others {
		theirs := &spec.Swagger{}
		if err := json.Unmarshal(other.Body, theirs); err != nil {
			continue // its authors' affair; all others are told of
		}
		theirs = aggregator.FilterSpecByPathsWithoutSideEffects(theirs, []string{prefix(other.GroupVersion())})
		if err := aggregator.MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters(all, theirs); err != nil {
			return nil, fmt.Errorf("openapi: adding %s: %w", other.GroupVersion(), err)
		}
	}
	return json.Marshal(all)
}

// pathsV3 asks all at once for their documents. What a server has in OpenAPI v2 only is converted, and served here.
func (e elsewhere) pathsV3(ctx context.Context) map[string]string {
	var mu sync.Mutex
	out := map[string]string{}
	var asking sync.WaitGroup
	for _, source := range e {
		asking.Go(func() {
			paths := source.PathsV3(ctx)
			if paths == nil {
				if d := source.DocumentV2(ctx); d != nil {
					path := pathOf(source)
					paths = map[string]string{path: addressV3(path, shorten(d.Hash))}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for path, at := range paths {
				out[path] = at
			}
		})
	}
	asking.Wait()
	return out
}

func pathOf(source Source) string {
	gv := source.GroupVersion()
	return "apis/" + gv.Group + "/" + gv.Version
}

// find returns the source that documents a path.
func (e elsewhere) find(path string) Source {
	for _, source := range e {
		if own := pathOf(source); own == path || "apis/"+source.GroupVersion().Group == path {
			return source
		}
	}
	return nil
}

// serveElsewhere passes a request for a document of OpenAPI v3 on, or converts what there is.
func (c *content) serveElsewhere(w http.ResponseWriter, r *http.Request, path string, source Source) {
	if paths := source.PathsV3(r.Context()); paths != nil {
		source.ServeHTTP(w, r)
		return
	}
	d := source.DocumentV2(r.Context())
	if d == nil || path != pathOf(source) {
		notFound(w)
		return
	}
	c.serveHashed(w, r, path, shorten(d.Hash), func() ([]byte, error) { return convert(d.Body) })
}

// convert makes OpenAPI v3 of v2.
func convert(body []byte) ([]byte, error) {
	v2 := &spec.Swagger{}
	if err := json.Unmarshal(body, v2); err != nil {
		return nil, err
	}
	return json.Marshal(openapiconv.ConvertV2ToV3(v2))
}

// hashOf stands for the content of all documents.
func hashOf(own string, others []sourced) string {
	if len(others) == 0 {
		return own
	}
	var all strings.Builder
	all.WriteString(own)
	for _, other := range others {
		all.WriteString(other.GroupVersion().String() + other.Hash)
	}
	return shorten(all.String())
}
