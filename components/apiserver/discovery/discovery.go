// Package discovery tells clients what is served, from the table of kinds and what is known of other servers: /api,
// /apis and what is right below them, in the plain form
// (https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api) and in the aggregated one.
package discovery

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/munnerz/goautoneg"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"quintet.dev/quintet/components/apiserver/audit/record"
	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// Server answers discovery. Its content is replaced as a whole.
type Server struct {
	config  Config
	content atomic.Pointer[content]
	metrics *metrics
	mu      sync.Mutex // guards input
	input   Input
}

// Config of a Server.
type Config struct {
	// Address is the host and port that clients are told in /api.
	Address string
	// Within is another address, for clients in a range: that of the Service by which the cluster's own reach the
	// server.
	Within Within
	// Hashes tell which resources are stored as one.
	Hashes bool
	// CBOR is one of the forms of the lists of the program's own resources.
	CBOR bool
	// NoCompression answers with large documents as they are.
	NoCompression bool
	// ID is what other API servers of the cluster know this one by.
	ID string
}

// Within is the address for clients whose own is in a range.
type Within struct {
	Range   netip.Prefix
	Address string
}

// has tells whether a request comes from the range, by what proxies say of it.
func (i Within) has(r *http.Request) bool {
	from, ok := netip.AddrFromSlice(utilnet.GetClientIP(r))
	return ok && i.Range.Contains(from.Unmap())
}

// New makes a server that serves nothing yet.
func New(config Config) *Server {
	s := &Server{config: config, metrics: newMetrics()}
	s.Set(nil)
	return s
}

// Set replaces the kinds that are told of. Requests that are under way end with what they began with.
func (s *Server) Set(table []*api.Kind) {
	s.change(func(in *Input) { in.Kinds = table })
}

// Arrange replaces the APIServices, those that this server would have of its own, what of this server's has lost its
// own, and what is told of group versions that others serve.
func (s *Server) Arrange(services, own []*apiregistrationv1.APIService, removed map[schema.GroupVersion]bool,
	elsewhere map[schema.GroupVersion]*apidiscoveryv2.APIVersionDiscovery) {
	s.change(func(in *Input) { in.Services, in.Own, in.Removed, in.Elsewhere = services, own, removed, elsewhere })
}

// SetPeers replaces what other API servers of the cluster serve, by their IDs: it is told of, too, in the aggregated
// form, unless a client asks for this server's alone.
func (s *Server) SetPeers(peers map[string][]apidiscoveryv2.APIGroupDiscovery) {
	s.change(func(in *Input) { in.Peers = peers })
}

func (s *Server) change(change func(*Input)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.input)
	made := newContent(s.input, s.config)
	made.metrics = s.metrics
	s.content.Store(made)
}

// Paths lists what is answered, for the list of paths at "/".
func (s *Server) Paths() []string {
	c := s.content.Load()
	paths := []string{"/api", "/apis"}
	for _, g := range c.byService {
		if g.name != "" {
			paths = append(paths, "/apis/"+g.name)
		}
		for _, v := range g.versions {
			paths = append(paths, root(g.name)+v.name)
		}
	}
	return paths
}

// root is the path that the versions of a group are below.
func root(group string) string {
	if group == "" {
		return "/api/"
	}
	return "/apis/" + group + "/"
}

// content is one state of what is told. Documents are made when they are first asked for.
type content struct {
	config                Config
	byName                map[string]*group
	byService, byPriority []*group // the orders of the plain and of the aggregated form
	peers                 map[string][]apidiscoveryv2.APIGroupDiscovery
	made                  sync.Map // documentKey -> *document
	metrics               *metrics
}

type documentKey struct {
	path       string
	aggregated bool
	alone      bool // without what other API servers have
	within     bool // for clients in the range that has an address of its own
	media      codec.MediaType
}

type document struct {
	once        sync.Once
	body        []byte
	contentType string
	etag        string
	err         error

	zip   sync.Once
	small []byte // body, compressed
}

// ServeHTTP answers for /api, /apis, and the paths of groups and versions below them.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := s.content.Load()
	key := documentKey{path: strings.TrimSuffix(r.URL.Path, "/")}
	at := c.place(key.path)
	switch {
	case at == nowhere:
		answer.Unknown(w, r)
		return
	case at == beside:
		answer.Error(w, r, generic(http.StatusNotFound))
		return
	case at == own && r.Method != http.MethodGet:
		answer.Error(w, r, generic(http.StatusMethodNotAllowed))
		return
	}
	if key.path == "/api" || r.URL.Path == "/apis" { // upstream has but the plain form below /apis/
		key.media, key.aggregated, key.alone = wantsAggregated(r)
	}
	if !key.aggregated {
		choice, err := c.choose(at, r)
		if err != nil {
			answer.Error(w, r, err)
			return
		}
		key.media = choice.Media
		key.within = key.path == "/api" && c.config.Within.has(r)
	}
	d, found := c.document(key)
	if key.aggregated {
		c.metrics.count(key, found, c.peers != nil)
	}
	if d.err != nil {
		answer.Error(w, r, d.err)
		return
	}
	if d.etag != "" {
		w.Header().Set("Vary", "Accept")
		w.Header().Set("ETag", d.etag)
		w.Header().Set("Cache-Control", "public")
		if r.Header.Get("If-None-Match") == d.etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	key.media = codec.JSON
	record.Response(r.Context(), &metav1.APIVersions{}, func(runtime.Object) ([]byte, error) {
		seen, _ := c.document(key)
		return seen.body, seen.err
	})
	w.Header().Set("Content-Type", d.contentType)
	body := d.shown(r, key.media)
	if len(body) >= negotiate.GzipFrom && !c.config.NoCompression && negotiate.Gzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Add("Vary", "Accept-Encoding")
		if negotiate.Pretty(r) {
			body = zipped(body)
		} else {
			d.zip.Do(func() { d.small = zipped(d.body) })
			body = d.small
		}
	}
	_, _ = w.Write(body)
}

func zipped(body []byte) []byte {
	var out bytes.Buffer
	gz, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err == nil {
		_, err = gz.Write(body)
	}
	if err == nil {
		err = gz.Close()
	}
	if err != nil {
		panic(err) // the level is a constant, and memory takes what is written
	}
	return out.Bytes()
}

// choose chooses the form of a document of the plain form.
func (c *content) choose(at place, r *http.Request) (negotiate.Choice, error) {
	offer := negotiate.Offer{Media: negotiate.All}
	if _, version := c.find(strings.TrimSuffix(r.URL.Path, "/")); at == own && version != nil && c.config.CBOR {
		offer = negotiate.Offer{Media: negotiate.Formats(true), CBOR: true}
	}
	known := make([]string, len(offer.Media))
	for i, m := range offer.Media {
		known[i] = m.String()
	}
	if accept := r.Header.Get("Accept"); at == own && accept != "" &&
		!negotiate.Named(accept, append(known, "*/*")...) {
		return negotiate.Choice{}, negotiate.NotAvailable(known...)
	}
	return offer.Accept(r)
}

// generic is an error that has nothing to tell but its code.
func generic(code int) error {
	return apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", "", 0, false)
}

// shown is the body, as people like to read it if one asks.
func (d *document) shown(r *http.Request, media codec.MediaType) []byte {
	if media != codec.JSON || !negotiate.Pretty(r) {
		return d.body
	}
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(d.body), "", "  "); err != nil {
		return d.body
	}
	return out.Bytes()
}

// wantsAggregated reports whether the client takes the aggregated form, and in which format, and whether it wants to
// know of this server alone. As with upstream, the plain form isn't as good, however much the client prefers it.
func wantsAggregated(r *http.Request) (media codec.MediaType, aggregated, alone bool) {
	for _, clause := range goautoneg.ParseAccept(r.Header.Get("Accept")) {
		p := clause.Params
		if p["as"] != aggregatedKind.Kind || p["g"] != aggregatedKind.Group || p["v"] != aggregatedKind.Version ||
			p["sv"] != "" {
			continue
		}
		for _, format := range negotiate.All {
			streams := p["stream"] == "" || p["stream"] == "watch" && format != codec.YAML
			if streams && negotiate.Covers(&clause, format) {
				return format, true, p["profile"] == "nopeer"
			}
		}
	}
	return 0, false, false
}

var aggregatedKind = apidiscoveryv2.SchemeGroupVersion.WithKind("APIGroupDiscoveryList")

// document returns a document, and whether it was made before.
func (c *content) document(key documentKey) (d *document, found bool) {
	made, found := c.made.LoadOrStore(key, &document{})
	d = made.(*document)
	d.once.Do(func() { c.make(key, d) })
	return d, found
}

func (c *content) make(key documentKey, d *document) {
	var obj runtime.Object
	var kind schema.GroupVersionKind
	d.contentType = key.media.String()
	if key.aggregated {
		list := c.aggregated(key.path == "/api")
		if key.path == "/apis" && !key.alone {
			list.Items = merge(c.config.ID, list.Items, c.peers)
		}
		obj, kind = list, aggregatedKind
		d.contentType += ";g=" + kind.Group + ";v=" + kind.Version + ";as=" + kind.Kind
		if d.etag, d.err = etag(list.Items); d.err != nil {
			return
		}
	} else {
		obj = c.plain(key.path, key.within)
		kind = schema.GroupVersionKind{Version: "v1", Kind: plainKind(obj)}
		if strings.HasPrefix(key.path+"/", "/api/") {
			kind.Version = "" // the first of the API's documents have none
		}
	}
	var body []byte
	if body, d.err = codec.Body(obj, kind, key.media); d.err != nil {
		return
	}
	var out bytes.Buffer
	d.err = codec.WriteObject(&out, key.media, kind, body)
	d.body = out.Bytes()
}

// plainKind names the kinds of the plain form, which are of no group.
func plainKind(obj runtime.Object) string {
	switch obj.(type) {
	case *metav1.APIVersions:
		return "APIVersions"
	case *metav1.APIGroupList:
		return "APIGroupList"
	case *metav1.APIGroup:
		return "APIGroup"
	default:
		return "APIResourceList"
	}
}
