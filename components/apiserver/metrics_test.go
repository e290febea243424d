package apiserver_test

import (
	"net/http"
	"strings"
	"testing"

	"quintet.dev/quintet/components/apiserver/options"
)

// TestMetricsBeginAnew where profiles are served, as of upstream; elsewhere they are shown, by whatever method.
func TestMetricsBeginAnew(t *testing.T) {
	const list = `apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="podtemplates",scope="cluster",subresource="",verb="LIST",version="v1"} `
	for profiling, want := range map[bool][3]string{true: {"metrics reset\n", "1\n", "1\n"},
		false: {"# HELP", "1\n", "2\n"}} {
		f := start(t, withoutServiceAccounts, func(c *options.Config) { c.Profiling.On = profiling })
		counted := func() string {
			f.with(t, http.MethodGet, "/api/v1/podtemplates", "")
			_, text := f.with(t, http.MethodGet, "/metrics", "")
			_, n, _ := strings.Cut(text, list)
			return n
		}
		if got := counted(); !strings.HasPrefix(got, want[1]) {
			t.Errorf("profiling %v: at first %.10q", profiling, got)
		}
		if _, got := f.with(t, http.MethodDelete, "/metrics", ""); !strings.HasPrefix(got, want[0]) {
			t.Errorf("profiling %v: %.40q", profiling, got)
		}
		if got := counted(); !strings.HasPrefix(got, want[2]) {
			t.Errorf("profiling %v: then %.10q", profiling, got)
		}
	}
}
