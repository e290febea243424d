// Package fairness makes requests wait for their turn, as flow schemas and priority levels say
// (https://kubernetes.io/docs/concepts/cluster-administration/flow-control/). Who is next is decided by
// k8s.io/apiserver's controller; this is the filter before it, which every request passes: it makes what a request that
// needn't wait has no use for only for those that must.
package fairness

import (
	"net/http"
	"strconv"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	flowrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
)

// Config of a Filter.
type Config struct {
	// Control decides whose turn it is.
	Control flowcontrol.Interface
	// Estimate tells how much work a request is.
	Estimate flowrequest.WorkEstimatorFunc
	// LongRunning are requests that need no turn, unless they are watches, which need one until they have begun.
	LongRunning request.LongRunningRequestCheck
	// Wait is how long a request without a deadline may wait; others may for a quarter of the time that they have.
	Wait time.Duration
}

// Filter is a handler before another. It is safe for concurrent use.
type Filter struct {
	Config
	next    http.Handler
	dropped flowcontrol.DroppedRequestsTracker
	// Those under way and those that wait, by whether they read.
	executing, waiting [2]*peakGauge
}

// New makes a Filter before next. Metrics of flow control are to be registered by then.
func New(config Config, next http.Handler) *Filter {
	return &Filter{
		Config: config, next: next, dropped: flowcontrol.NewDroppedRequestsTracker(),
		executing: [2]*peakGauge{{gauge: metrics.GetExecutingMutatingConcurrency()},
			{gauge: metrics.GetExecutingReadonlyConcurrency()}},
		waiting: [2]*peakGauge{{gauge: metrics.GetWaitingMutatingConcurrency()},
			{gauge: metrics.GetWaitingReadonlyConcurrency()}},
	}
}

// ServeHTTP implements http.Handler. The request's context has a RequestInfo and a user.
func (f *Filter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	info, known := request.RequestInfoFrom(r.Context())
	user, named := request.UserFrom(r.Context())
	switch {
	case !known || !named:
		http.Error(w, "Internal Server Error: "+strconv.Quote(r.RequestURI), http.StatusInternalServerError)
		return
	case info.Verb != "watch" && f.LongRunning(r, info):
		f.next.ServeHTTP(w, r)
		return
	}
	t := &queuedRequest{Context: r.Context(), filter: f, w: w, r: r,
		digest: flowcontrol.RequestDigest{RequestInfo: info, User: user}}
	if info.Verb == "get" || info.Verb == "list" || info.Verb == "watch" {
		t.reads = 1
	}
	if info.Verb == "watch" {
		t.watch()
	} else {
		t.wait(t.serve)
	}
	if !t.served {
		t.refuse(info)
	}
}

// refuse sends a request away whose turn has not come.
func (t *queuedRequest) refuse(info *request.RequestInfo) {
	t.mark()
	endpointmetrics.RecordRequestTermination(t.r, info, endpointmetrics.APIServerComponent, http.StatusTooManyRequests)
	t.filter.dropped.RecordDroppedRequest(t.level.Name)
	t.w.Header().Set("Retry-After", strconv.FormatInt(t.filter.dropped.GetRetryAfter(t.level.Name), 10))
	http.Error(t.w, "Too many requests, please try again later.", http.StatusTooManyRequests)
}

// The headers that tell of the classification, as headers are kept.
var (
	headerLevel  = http.CanonicalHeaderKey(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID)
	headerSchema = http.CanonicalHeaderKey(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)
)

// mark tells the client how its request was classified: by identities, as names may be confidential.
func (t *queuedRequest) mark() {
	t.uids = [2]string{string(t.level.UID), string(t.schema.UID)}
	h := t.w.Header()
	h[headerLevel], h[headerSchema] = t.uids[0:1:1], t.uids[1:2:2]
}
