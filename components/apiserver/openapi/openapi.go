// Package openapi serves the schemas of the API and its operations as OpenAPI v3 (a document per group version) and v2
// (one document for all). The schemas lie in the program as compressed files, one per package of types, made by `go
// generate`; the operations come from the table of kinds. A document is built on the first request, and kept
// compressed: until then all this uses no memory.
package openapi

import (
	"crypto/sha512"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// Server answers /openapi/v2, /openapi/v3, and what is below the latter. Its content is replaced as a whole.
type Server struct {
	version   string
	form      Form
	content   atomic.Pointer[content]
	elsewhere atomic.Pointer[elsewhere]
	made      sync.Map // documentKey -> *document; v3's of this server stay as long as a change doesn't touch them
}

// Form is what of the documents can be chosen. The zero value is that of the release.
type Form struct {
	CBOR    bool // objects have that form, too
	NoEnums bool // the program's own types don't tell which values there are
}

// New makes a server that serves no kinds yet. version is that of the API server, as in "v1.36.0".
func New(version string, form Form) *Server {
	s := &Server{version: version, form: form}
	s.elsewhere.Store(&elsewhere{})
	s.Set(nil, nil)
	return s
}

// SetElsewhere replaces what is served by others, in the order in which they are told of.
func (s *Server) SetElsewhere(sources []Source) {
	e := elsewhere(sources)
	s.elsewhere.Store(&e)
}

// Set replaces what is served here. Of the kinds of onlyV2 the document of v2 alone tells.
func (s *Server) Set(table, onlyV2 []*api.Kind) {
	c := newContent(table, onlyV2, s.version, s.form)
	c.made = &s.made
	s.content.Store(c)
	c.forget()
}

// content is one state of what is served.
type content struct {
	version string
	form    Form
	groups  []groupVersion // sorted, as their hashes are told of the same content however it came about
	onlyV2  []groupVersion // likewise
	made    *sync.Map      // of the Server
}

// groupVersion is what one document of v3 is about.
type groupVersion struct {
	schema.GroupVersion
	kinds []*api.Kind
	hash  func() string // called only on a request
	form  Form
}

// path is the place of its document below /openapi/v3, and of its resources below the root.
func (g *groupVersion) path() string {
	if g.Group == "" {
		return "api/" + g.Version
	}
	return "apis/" + g.Group + "/" + g.Version
}

func newContent(table, onlyV2 []*api.Kind, version string, form Form) *content {
	return &content{version: version, form: form, groups: groupsOf(table, version, form),
		onlyV2: groupsOf(onlyV2, version, form)}
}

func groupsOf(table []*api.Kind, version string, form Form) (groups []groupVersion) {
	at := map[schema.GroupVersion]int{}
	for _, kind := range table {
		for i := range kind.Versions {
			gv := kind.Versions[i].GroupVersion
			if kind.Versions[i].Unserved {
				continue
			}
			if _, ok := at[gv]; !ok {
				at[gv] = len(groups)
				groups = append(groups, groupVersion{GroupVersion: gv, form: form})
			}
			g := &groups[at[gv]]
			g.kinds = append(g.kinds, kind)
		}
	}
	slices.SortFunc(groups, func(a, b groupVersion) int { return strings.Compare(a.path(), b.path()) })
	for i := range groups {
		g := &groups[i]
		slices.SortStableFunc(g.kinds, func(a, b *api.Kind) int { return strings.Compare(a.Resource, b.Resource) })
		g.hash = sync.OnceValue(func() string { return hash(version, g) })
	}
	return groups
}

// hash names the content of a document without making it: by the program's version, and what of the table it shows.
func hash(version string, g *groupVersion) string {
	h := sha512.New()
	fmt.Fprintln(h, version, fingerprint(), g.GroupVersion, g.form)
	for _, kind := range g.kinds {
		fmt.Fprintln(h, kind.Name, kind.Resource, kind.Namespaced, verbs(kind))
		for _, sub := range kind.SubresourcesIn(g.GroupVersion) {
			fmt.Fprintln(h, sub.Name, sub.Verbs, sub.Body)
		}
		if kind.Custom != nil {
			fmt.Fprintln(h, kind.Custom.Revision(g.Version))
		}
	}
	return fmt.Sprintf("%X", h.Sum(nil))
}

// info is the head of the documents. They are of a minor version.
func (c *content) info() object {
	version := strings.TrimPrefix(c.version, "v")
	if parts := strings.SplitN(version, ".", 3); len(parts) == 3 {
		version = parts[0] + "." + parts[1]
	}
	return object{"title": "Kubernetes", "version": version}
}

// forget gives up the documents but those of v3 that tell of just what c does.
func (c *content) forget() {
	hashes := map[string]func() string{} // called for documents that were made, as they cost something
	for _, o := range c.roots() {
		hashes[o.place()] = func() string { return c.rootHash(&o) }
	}
	for i := range c.groups {
		hashes[c.groups[i].path()] = c.groups[i].hash
	}
	c.made.Range(func(key, made any) bool {
		if hash := hashes[key.(documentKey).path]; hash == nil || made.(*document).hash != hash() {
			c.made.CompareAndDelete(key, made)
		}
		return true
	})
}

func (c *content) find(path string) *groupVersion {
	for i := range c.groups {
		if c.groups[i].path() == path {
			return &c.groups[i]
		}
	}
	return nil
}

// ServeHTTP answers GET.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, others := s.content.Load(), *s.elsewhere.Load()
	switch r.URL.Path {
	case "/openapi/v3":
		c.serveIndex(w, r, others.pathsV3(r.Context()))
	case "/openapi/v2":
		c.serveV2(w, r, others.documentsV2(r.Context()))
	default:
		path := strings.TrimPrefix(r.URL.Path, "/openapi/v3/") // as the index has it: what ends in a slash is not there
		if source := others.find(path); source != nil {
			c.serveElsewhere(w, r, path, source)
			return
		}
		if g := c.find(path); g != nil {
			c.serveV3(w, r, g)
			return
		}
		if o := c.findRoot(path); o != nil {
			c.serveHashed(w, r, path, c.rootHash(o), func() ([]byte, error) { return c.documentOfRoot(o) })
			return
		}
		notFound(w)
	}
}

// notFound has nothing to say, as upstream.
func notFound(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }
