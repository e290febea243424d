package apiserver_test

import (
	"cmp"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// late is a body whose end comes so long after its first read that audit tells where the time went, also if the server
// is slow to notice the request.
type late struct {
	io.Reader
	until time.Time
}

func (l *late) Read(p []byte) (int, error) {
	if l.until.IsZero() {
		l.until = time.Now().Add(time.Second)
	}
	n, err := l.Reader.Read(p)
	if err == io.EOF {
		time.Sleep(time.Until(l.until))
	}
	return n, err
}

// TestAuditLatency: the event of a request that takes more than half a second tells what the time went to, that of
// others doesn't.
func TestAuditLatency(t *testing.T) {
	const configMaps = "/api/v1/namespaces/default/configmaps"
	table := map[string]string{"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
	merge := map[string]string{"Content-Type": "application/merge-patch+json"}
	apply := map[string]string{"Content-Type": "application/apply-patch+yaml"}
	told := events(t, func(f *fixture) {
		f.send(t, ask{name: "quick", token: "admin", method: http.MethodPost, path: configMaps,
			body: `{"metadata":{"name":"quick"}}`})
		for _, a := range []ask{
			{name: "slow", body: `{"metadata":{"name":"slow"}}`},
			{name: "table", body: `{"metadata":{"name":"table"}}`, header: table},
			{name: "refused", body: `{"metadata":{"name":"quick"}}`},
			{name: "replaced", method: http.MethodPut, path: "/quick",
				body: `{"metadata":{"name":"quick"},"data":{"a":"b"}}`},
			{name: "stale", method: http.MethodPut, path: "/quick",
				body: `{"metadata":{"name":"quick","resourceVersion":"1"}}`},
			{name: "patched", method: http.MethodPatch, path: "/quick", body: `{"data":{"a":"c"}}`, header: merge},
			{name: "applied", method: http.MethodPatch, path: "/applied?fieldManager=m", header: apply,
				body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"}}`},
			{name: "deleted", method: http.MethodDelete, path: "/quick", body: `{}`},
		} {
			a.token, a.method, a.path = "admin", cmp.Or(a.method, http.MethodPost), configMaps+a.path
			f.sendBody(t, a, &late{Reader: strings.NewReader(a.body)})
		}
	})
	// Upstream counts what is read for a request, not what its transactions take.
	reads := []string{"authentication", "authorization", "etcd", "response-write", "serialize-response-object", "total",
		"transform-response-object"}
	writes := slices.Delete(slices.Clone(reads), 2, 3)
	refused := reads[:len(reads)-1]
	for name, want := range map[string][]string{
		"quick": nil, "slow": writes, "table": writes, "refused": refused, "replaced": writes, "stale": refused,
		"patched": writes, "applied": reads, "deleted": reads,
	} {
		var got []string
		for _, e := range told[name] {
			for _, key := range slices.Sorted(maps.Keys(e.Annotations)) {
				if part, ok := strings.CutPrefix(key, "apiserver.latency.k8s.io/"); ok {
					got = append(got, part)
					if took, err := time.ParseDuration(e.Annotations[key]); err != nil || took <= 0 {
						t.Errorf("%s: %s is %q", name, key, e.Annotations[key])
					}
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got  %q\nwant %q", name, got, want)
		}
	}
}
