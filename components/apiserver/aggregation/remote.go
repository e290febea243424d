package aggregation

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"sync/atomic"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// remote is a group version that an extension server serves, as one state of its APIService's spec says, seen with one
// client certificate.
type remote struct {
	name  string // of the APIService
	spec  *apiregistrationv1.APIServiceSpec
	pair  *keyPair
	owner *Aggregator

	// transport is nil if it can't be made; why is in broken.
	transport *http.Transport
	via       http.RoundTripper // the transport, which it counts bad certificates of
	broken    error

	wake chan struct{}
	// told is the condition that this server last wrote; contested tells that another writer changed it.
	told      atomic.Pointer[apiregistrationv1.APIServiceCondition]
	contested chan struct{}

	described atomic.Pointer[description]
	documents documents
}

// description is what discovery tells of the group version, and what it was made of: the aggregated form by its ETag,
// or the plain one.
type description struct {
	etag    string
	plain   string
	version *apidiscoveryv2.APIVersionDiscovery
}

func (a *Aggregator) newRemote(s *apiService, pair *keyPair) *remote {
	r := &remote{name: s.Name, spec: &s.Spec, pair: pair, owner: a, wake: make(chan struct{}, 1),
		contested: make(chan struct{}, 1)}
	r.transport, r.broken = newTransport(r.spec, pair, a.config.Dial)
	r.via = a.metrics.certificates(r.transport)
	return r
}

// copyState takes over what is known of the same server until it has been checked again: resources must not go and come
// back because the connection to the server was changed. former may be nil.
func (r *remote) copyState(former *remote) {
	if former == nil || r.groupVersion() != former.groupVersion() ||
		!reflect.DeepEqual(r.spec.Service, former.spec.Service) {
		return
	}
	r.described.Store(former.described.Load())
	r.documents.copyState(&former.documents)
}

func (r *remote) groupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: r.spec.Group, Version: r.spec.Version}
}

// path is that of the group version, and of its discovery.
func (r *remote) path() string { return "/apis/" + r.spec.Group + "/" + r.spec.Version }

func newTransport(spec *apiregistrationv1.APIServiceSpec, pair *keyPair,
	dial func(ctx context.Context, network, address string) (net.Conn, error)) (*http.Transport, error) {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: spec.InsecureSkipTLSVerify,
		ServerName: spec.Service.Name + "." + spec.Service.Namespace + ".svc",
	}
	if len(spec.CABundle) > 0 {
		// which says what is wrong with them
		roots, err := transport.TLSConfigFor(&transport.Config{TLS: transport.TLSConfig{CAData: spec.CABundle}})
		if err != nil {
			return nil, err
		}
		config.RootCAs = roots.RootCAs
	}
	if pair != nil {
		config.Certificates = []tls.Certificate{pair.pair}
	}
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	// The defaults notice connections whose other end is gone without a word.
	return utilnet.SetTransportDefaults(&http.Transport{
		Proxy: outside, DialContext: dial, TLSClientConfig: config, TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2: true, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 25,
	}), nil
}

// outside is the proxy of the environment for servers that have a name. Addresses are of endpoints, which are in the
// network of the cluster: a proxy need not reach them, and a NO_PROXY with the range of Services doesn't cover them.
func outside(r *http.Request) (*url.URL, error) {
	if net.ParseIP(r.URL.Hostname()) != nil {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}

// close drops connections that are idle; requests that are under way end as they began.
func (r *remote) close() {
	if r.transport != nil {
		r.transport.CloseIdleConnections()
	}
}

// checkNow makes the remote be looked at now.
func (r *remote) checkNow() { signal(r.wake) }

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// at resolves one of the endpoints of the Service.
func (r *remote) at() (*url.URL, error) {
	s := r.spec.Service
	port := int32(443)
	if s.Port != nil {
		port = *s.Port
	}
	return r.owner.config.Services.ResolveEndpoint(s.Namespace, s.Name, port)
}

// The users that this server authenticates as.
const (
	prober   = "system:kube-aggregator" // for health and discovery
	compiler = "system:aggregator"      // for OpenAPI
)

// answer is what a server said to a GET.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

// longest bounds what is read of one answer: documents of large servers take a few megabytes.
const longest = 64 << 20

// get asks one of the servers; header is sent with the request. Redirects are not followed.
func (r *remote) get(ctx context.Context, path string, header http.Header, timeout time.Duration) (*answer, error) {
	if r.broken != nil {
		return nil, r.broken
	}
	at, err := r.at()
	if err != nil {
		return nil, err
	}
	at.Path = path
	return r.fetch(ctx, at, header, timeout)
}

func (r *remote) fetch(ctx context.Context, at *url.URL, header http.Header, timeout time.Duration) (*answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header = header
	client := http.Client{
		Transport:     r.via,
		Timeout:       timeout, // and not one of the context: conditions tell whose it was
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, longest+1))
	if err == nil && len(body) > longest {
		err = fmt.Errorf("the answer from %s is longer than %d bytes", at, longest)
	}
	return &answer{response.StatusCode, response.Header, body}, err
}
