package server

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// served is what requests for resources have in common that are counted together.
type served struct{ verb, dryRun, group, version, resource, subresource, scope string }

func servedOf(r *http.Request, info *request.RequestInfo) served {
	return served{verbOf(r, info), dryRunOf(r), info.APIGroup, info.APIVersion, info.Resource, info.Subresource, scopeOf(info)}
}

// routed is by what a request is counted that is served. With upstream, routes of built-in kinds go by the path alone: a list or a watch
// of the one object that a selector names is counted as others are, while all else takes it for a request for that object.
func (s *Server) routed(of served, info *request.RequestInfo) served {
	switch {
	case info.Verb != "list" && info.Verb != "watch", info.Name == "", len(info.Parts) > 1, s.config.Defined != nil && s.config.Defined(info):
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
	requests            memo[int, prometheus.Counter] // by code
	counter             func(code int) prometheus.Counter
	duration, sli, size prometheus.Observer // size is nil for what isn't read, sli for what nobody is promised to get in time
}

func (m *metrics) newSeries(of served) *series {
	s := &series{
		counter: func(code int) prometheus.Counter {
			return m.requests.WithLabelValues(of.verb, of.dryRun, of.group, of.version, of.resource, of.subresource, of.scope, component, strconv.Itoa(code))
		},
		duration: m.duration.WithLabelValues(of.verb, of.dryRun, of.group, of.version, of.resource, of.subresource, of.scope, component),
	}
	if of.verb != "WATCH" && of.dryRun == "" {
		s.sli = m.sli.WithLabelValues(of.verb, of.group, of.version, of.resource, of.subresource, of.scope, component)
	}
	if of.verb == "GET" || of.verb == "LIST" || of.verb == "WATCH" || of.subresource == "log" {
		s.size = m.size.WithLabelValues(of.verb, of.group, of.version, of.resource, of.subresource, of.scope, component)
	}
	return s
}
