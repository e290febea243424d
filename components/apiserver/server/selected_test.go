package server

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// TestRequestsForSelectedNames: by what lists and watches are counted of which a selector wants one object.
func TestRequestsForSelectedNames(t *testing.T) {
	s := serverOf(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.RawQuery, "crowd") {
			requestStateOf(r).got = queued
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}, func(c *Config) { c.Defined = func(info *request.RequestInfo) bool { return info.Resource == "zebras" } })
	const one = "?fieldSelector=metadata.name%3Done"
	for _, path := range []string{
		"/api/v1/namespaces/x/pods" + one, "/api/v1/nodes" + one, "/api/v1/nodes" + one + "&watch=1",
		"/api/v1/watch/nodes/one", "/apis/zoo/v1/zebras" + one,
		"/api/v1/events" + one + "&labelSelector=crowd",
	} {
		ask(s, http.MethodGet, path)
	}
	text := ask(s, http.MethodGet, "/metrics").Body.String()
	for _, want := range []string{
		`{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="namespace",subresource="",verb="LIST",version="v1"} 1`,
		`{code="200",component="apiserver",dry_run="",group="",resource="nodes",scope="cluster",subresource="",verb="LIST",version="v1"} 1`,
		`{code="200",component="apiserver",dry_run="",group="",resource="nodes",scope="cluster",subresource="",verb="WATCH",version="v1"} 1`,
		`{code="200",component="apiserver",dry_run="",group="",resource="nodes",scope="resource",subresource="",verb="WATCH",version="v1"} 1`,
		`{code="200",component="apiserver",dry_run="",group="zoo",resource="zebras",scope="resource",subresource="",verb="GET",version="v1"} 1`,
		`{code="429",component="apiserver",dry_run="",group="",resource="events",scope="resource",subresource="",verb="GET",version="v1"} 1`,
		`apiserver_longrunning_requests{component="apiserver",group="",resource="nodes",scope="resource",subresource="",verb="WATCH",version="v1"} 0`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
