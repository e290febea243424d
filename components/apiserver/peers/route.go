package peers

import (
	"math/rand/v2"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/proxy"
	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	proxyrequest "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/handlers/answer"
)

// passedHeader marks requests that come from another API server, which is not asked back.
const passedHeader = "X-Kubernetes-Peer-Proxied"

// Alone tells whether there is no peer to proxy to, which every request checks.
func (p *Peers) Alone() bool { return len(*p.shown.Load()) == 0 }

// Route returns what serves a request for a resource that this server doesn't have, or nil if no other has it either.
func (p *Peers) Route(r *http.Request, info *request.RequestInfo) http.Handler {
	if r.Header.Get(passedHeader) == "true" {
		return nil
	}
	resource := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	var serving []string
	for id, from := range *p.shown.Load() {
		if from.resources[resource] {
			serving = append(serving, id)
		}
	}
	if len(serving) == 0 {
		return nil
	}
	return &pass{owner: p, resource: resource, serving: serving}
}

// pass passes one request on.
type pass struct {
	owner    *Peers
	resource schema.GroupVersionResource
	serving  []string // IDs
}

// ServeHTTP proxies the request with its user in the request headers, authenticated by this server's proxy client
// certificate.
func (p *pass) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, err := p.choose(r)
	if err != nil {
		p.owner.metrics.notPassed("endpoint_resolution", p.resource)
		klog.FromContext(r.Context()).Error(err, "Failed to proxy request: no peer API server is reachable", "resource",
			p.resource)
		answer.Error(w, r, apierrors.NewServiceUnavailable(
			"Error getting ip and port info of the remote server while proxying"))
		return
	}
	who, ok := request.UserFrom(r.Context())
	if !ok {
		p.owner.metrics.notPassed("proxy_transport", p.resource)
		http.Error(w, "missing user", http.StatusInternalServerError)
		return
	}
	location := &url.URL{Scheme: "https", Host: at, Path: r.URL.Path, RawQuery: r.URL.RawQuery}
	passed, done := proxyrequest.NewRequestForProxy(location, r)
	defer done()
	passed.Header.Set(passedHeader, "true")
	if id := w.Header().Get(auditID); id != "" {
		passed.Header.Set(auditID, id)
	}
	user := func(via http.RoundTripper) http.RoundTripper {
		return transport.NewAuthProxyRoundTripper(who.GetName(), who.GetUID(), who.GetGroups(), who.GetExtra(), via)
	}
	seen := &endpointmetrics.ResponseWriterDelegator{ResponseWriter: w}
	via := p.owner.transport.Load()
	h := proxy.NewUpgradeAwareHandler(location, user(via), true, false, answer.Passed{Request: r})
	h.UpgradeTransport = proxy.NewUpgradeRequestRoundTripper(via, user(proxy.MirrorRequest))
	h.ServeHTTP(responsewriter.WrapForHTTP1Or2(seen), passed)
	p.owner.metrics.passedOn(seen.Status(), p.resource)
}

const auditID = "Audit-Id"

// choose finds the address of one of those who serve the request.
func (p *pass) choose(r *http.Request) (string, error) {
	var last error
	for _, i := range rand.Perm(len(p.serving)) {
		at, err := p.owner.addressOf(r.Context(), p.serving[i])
		if err == nil {
			return at, nil
		}
		last = err
	}
	return "", last
}
