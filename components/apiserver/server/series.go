package server

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// served is what requests for resources have in common that are counted together.
type served struct{ verb, dryRun, group, version, resource, subresource, scope string }

func servedOf(r *http.Request, info *request.RequestInfo) served {
	verb := verbOf(info)
	if verb == "PATCH" && strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch") {
		verb = "APPLY"
	}
	return served{verb, dryRunOf(r), info.APIGroup, info.APIVersion, info.Resource, info.Subresource, scopeOf(info)}
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
	if of.verb == "GET" || of.verb == "LIST" || of.verb == "WATCH" {
		s.size = m.size.WithLabelValues(of.verb, of.group, of.version, of.resource, of.subresource, of.scope, component)
	}
	return s
}
