package aggregation

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/proxy"
	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	proxyrequest "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"

	reply "quintet.dev/quintet/components/apiserver/handlers/answer"
)

// routes are the servers of the group versions that this server doesn't serve. It is replaced as a whole.
type routes map[schema.GroupVersion]route

// route is a remote, and whether its APIService says that it can be used.
type route struct {
	*remote
	available bool
}

// Route returns what serves a request in the place of this server, or nil. Authentication, authorization and the rest
// of the chain are past by then.
func (a *Aggregator) Route(r *http.Request) http.Handler {
	table := *a.routes.Load()
	if len(table) == 0 {
		return nil
	}
	gv, ok := groupVersionIn(r.URL.Path)
	if !ok {
		return nil
	}
	if to, ok := table[gv]; ok {
		return to
	}
	return nil
}

// groupVersionIn finds it in /apis/<group>/<version> and all that is below.
func groupVersionIn(path string) (gv schema.GroupVersion, ok bool) {
	rest, ok := strings.CutPrefix(path, "/apis/")
	if !ok {
		return gv, false
	}
	if gv.Group, rest, ok = strings.Cut(rest, "/"); !ok {
		return gv, false
	}
	gv.Version, _, _ = strings.Cut(rest, "/")
	return gv, gv.Version != ""
}

// ServeHTTP proxies the request with its user in the request headers, authenticated by this server's proxy client
// certificate.
func (t route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !t.available {
		serviceUnavailable(w, r)
		return
	}
	if t.broken != nil {
		refuse(w, r, t.broken.Error(), http.StatusInternalServerError)
		return
	}
	who, ok := request.UserFrom(r.Context())
	if !ok {
		refuse(w, r, "missing user", http.StatusInternalServerError)
		return
	}
	at, err := t.at()
	if err != nil {
		klog.FromContext(r.Context()).Error(err, "Failed to proxy request to extension server", "name", t.name)
		serviceUnavailable(w, r)
		return
	}
	// sorted, and without what is no pair: as upstream's passes it on
	at.Path, at.RawQuery = r.URL.Path, r.URL.Query().Encode()
	passed, done := proxyrequest.NewRequestForProxy(at, r)
	defer done()
	if id := w.Header().Get(auditID); id != "" {
		passed.Header.Set(auditID, id)
	}
	uid := who.GetUID()
	if t.owner.config.NoUIDs {
		uid = ""
	}
	user := func(via http.RoundTripper) http.RoundTripper {
		return transport.NewAuthProxyRoundTripper(who.GetName(), uid, who.GetGroups(), who.GetExtra(), via)
	}
	via := t.via
	if t.owner.config.Traced != nil {
		via = t.owner.config.Traced(via)
	}
	// whose answers don't count as refused
	h := proxy.NewUpgradeAwareHandler(at, user(via), true, false, reply.Passed{Request: r})
	h.UpgradeTransport = proxy.NewUpgradeRequestRoundTripper(t.transport, user(proxy.MirrorRequest))
	h.UseLocationHost, h.RejectForwardingRedirects = true, !t.owner.config.PassRedirects
	flowcontrol.RequestDelegated(r.Context()) // a watch is no burden here once another server has it
	h.ServeHTTP(w, passed)
}

const auditID = "Audit-Id"

func serviceUnavailable(w http.ResponseWriter, r *http.Request) {
	refuse(w, r, "service unavailable", http.StatusServiceUnavailable)
}

// refuse answers a request that isn't passed on.
func refuse(w http.ResponseWriter, r *http.Request, why string, code int) {
	http.Error(w, why, code)
	info, _ := request.RequestInfoFrom(r.Context())
	endpointmetrics.RecordRequestTermination(r, info, "aggregator", code)
}
