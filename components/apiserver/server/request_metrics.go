package server

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
)

// served is what requests for resources have in common that are counted together.
type served struct {
	verb, dryRun, group, version, resource, subresource, scope string
	sized                                                      bool // their answers are measured
}

func servedOf(r *http.Request, info *request.RequestInfo) served {
	return served{
		verb: verbOf(r, info), dryRun: dryRunOf(r), group: info.APIGroup, version: info.APIVersion,
		resource:    info.Resource,
		subresource: info.Subresource, scope: scopeOf(info),
	}
}

func (m *metrics) custom(info *request.RequestInfo) bool {
	return m.defined != nil && m.defined(info)
}

// routes tells whether upstream has something that serves such a request, and counts it: methods that a resource
// doesn't know, and for those that aren't custom, forms that nothing is read or written in, are refused before that.
func (m *metrics) routes(r *http.Request, info *request.RequestInfo, code int) bool {
	switch code {
	case http.StatusMethodNotAllowed:
		return info.Verb == "watch" && !m.custom(info) // which is refused as a way to list
	case http.StatusUnsupportedMediaType:
		return info.Verb != "patch" || m.custom(info)
	case http.StatusNotAcceptable:
		return m.custom(info) ||
			negotiate.Named(r.Header.Get("Accept"), codec.JSON.String(), codec.YAML.String(),
				codec.Protobuf.String(), codec.CBOR.String(), "*/*")
	}
	return true
}

// routed is by what a request is counted that is served. With upstream, routes of built-in kinds go by the path alone:
// a list or a watch of the one object that a selector names is counted as others are, while all else takes it for a
// request for that object.
func (m *metrics) routed(of served, info *request.RequestInfo) served {
	defined := m.custom(info)
	of.sized = of.verb == "GET" || of.verb == "LIST" || of.verb == "WATCH" && !defined
	switch {
	case info.Verb != "list" && info.Verb != "watch", info.Name == "", len(info.Parts) > 1, defined:
		return of
	case info.Verb == "list":
		of.verb = "LIST"
	}
	all := *info
	all.Name = ""
	of.scope = scopeOf(&all)
	return of
}

// series are the metrics of such requests: to find one by its labels costs more than to count.
type series struct {
	requests memo[int, prometheus.Counter] // by code
	counter  func(code int) prometheus.Counter
	// size is nil for verbs that aren't measured, sli for requests without a latency objective
	duration, sli, size prometheus.Observer
}

func (m *metrics) newSeries(of served) *series {
	s := &series{
		counter: func(code int) prometheus.Counter {
			return m.requests.WithLabelValues(of.verb, of.dryRun, of.group, of.version, of.resource, of.subresource,
				of.scope, component, strconv.Itoa(code))
		},
		duration: m.duration.WithLabelValues(of.verb, of.dryRun, of.group, of.version, of.resource, of.subresource,
			of.scope, component),
	}
	if of.verb != "WATCH" && of.dryRun == "" {
		s.sli = m.sli.WithLabelValues(of.verb, of.group, of.version, of.resource, of.subresource, of.scope, component)
	}
	if of.sized {
		s.size = m.size.WithLabelValues(of.verb, of.group, of.version, of.resource, of.subresource, of.scope, component)
	}
	return s
}
