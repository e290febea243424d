package handlers

import (
	"context"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/latency"
	"quintet.dev/quintet/components/apiserver/registry"
	"quintet.dev/quintet/components/apiserver/tracing"
)

// exchange is an HTTP request to an endpoint and the response to it.
type exchange struct {
	*endpoint
	api   *API
	w     http.ResponseWriter
	r     *http.Request
	ctx   context.Context // of what is done for the request: it may end before that of r
	info  *request.RequestInfo
	times *latency.Times // nil unless they are measured
	steps tracing.Steps
}

// call is one request on its way: it has a method for each verb.
type call struct {
	exchange
	registry.Request
	in    decoder
	out   responder
	media string // that of a patch
}

// decoder reads what the request carries, and notes in the Request what is odd about it.
type decoder struct {
	*exchange
	*registry.Request
}

// responder writes the response.
type responder struct {
	*exchange
	choice    negotiate.Choice // the form of the response; not for connections
	answering time.Time        // since when, for times
}

// newCall joins the parts of a call.
func newCall(e exchange, q registry.Request) *call {
	c := &call{exchange: e, Request: q}
	c.in = decoder{&c.exchange, &c.Request}
	c.out.exchange = &c.exchange
	return c
}

// writer writes what the request asks for.
func (c *call) writer() registry.Writer { return c.Writer(&c.Request) }
