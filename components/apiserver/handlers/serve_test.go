package handlers

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"
	testclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/registry"
	"quintet.dev/quintet/components/apiserver/registry/registrytest"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// began is the time of the clocks of served APIs.
var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// served is an API of some kinds of the table over a store in memory, without the filters that a server puts before it.
type served struct {
	*testing.T
	api    *API
	store  *memory.Store
	caches []*cache.Cache
}

// serve makes one; change may be nil.
func serve(t *testing.T, change func(*Config), resources ...string) *served {
	t.Helper()
	s := &served{T: t, store: memory.New(nil)}
	var rows []*api.Kind
	for _, resource := range resources {
		rows = append(rows, registrytest.Kind(t, resource))
	}
	s.caches = registrytest.Caches(t, s.store, rows...)
	scheme, clock := codec.NewScheme(), testclock.NewFakePassiveClock(began)
	config := registry.Config{Scheme: scheme, Clock: clock}
	for i, c := range s.caches {
		config.Resources = append(config.Resources, registry.Resource{Kind: rows[i], Cache: c})
	}
	out := Config{Registry: registry.New(config), Scheme: scheme, Codec: codec.NewCodec(scheme), Clock: clock}
	if change != nil {
		change(&out)
	}
	s.api = New(out)
	return s
}

// settle waits until the caches have what is stored.
func (s *served) settle() {
	s.Helper()
	for _, c := range s.caches {
		if _, err := c.List(s.Context(), cache.ListOptions{}); err != nil {
			s.Fatal(err)
		}
	}
}

// reply is a response with what the client was warned of.
type reply struct {
	*httptest.ResponseRecorder
	warned []string
}

// resolver reads what a request is for.
var resolver = &request.RequestInfoFactory{
	APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
}

// do sends a request; headers are pairs of a name and a value.
func (s *served) do(method, path, body string, headers ...string) *reply {
	s.Helper()
	return s.doIn(s.Context(), method, path, body, headers...)
}

func (s *served) doIn(ctx context.Context, method, path, body string, headers ...string) *reply {
	s.Helper()
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	info, err := resolver.NewRequestInfo(r)
	if err != nil {
		s.Fatal(err)
	}
	out := &reply{ResponseRecorder: httptest.NewRecorder()}
	var mu sync.Mutex
	ctx = request.WithRequestInfo(r.Context(), info)
	ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "jane"})
	ctx = warning.WithWarningRecorder(ctx, warned(func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(out.warned, text) { // as the filter does that puts them into headers
			out.warned = append(out.warned, text)
		}
	}))
	s.api.ServeHTTP(out, r.WithContext(ctx))
	return out
}

// warned notes warnings.
type warned func(text string)

func (w warned) AddWarning(_, text string) { w(text) }

// must is do of what is answered with a code.
func (s *served) must(code int, method, path, body string, headers ...string) *reply {
	s.Helper()
	r := s.do(method, path, body, headers...)
	if r.Code != code {
		s.Fatalf("%s %s: %d %s, want %d", method, path, r.Code, r.Body, code)
	}
	return r
}

// content is a response as JSON.
func (r *reply) content(t *testing.T) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal(r.Body.Bytes(), &out); err != nil {
		t.Fatalf("%v: %s", err, r.Body)
	}
	return out
}

// status is a response as a Status.
func (r *reply) status() metav1.Status {
	var out metav1.Status
	_ = json.Unmarshal(r.Body.Bytes(), &out)
	return out
}

// refusal is a request that is answered by a Status of failure, or in words.
type refusal struct {
	method, path, body string
	headers            []string
	code               int
	reason             metav1.StatusReason
	message            string
}

// refused checks that requests are refused so, and that nothing is written by them.
func (s *served) refused(cases map[string]refusal) {
	s.Helper()
	before, err := s.store.Revision(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	for name, c := range cases {
		r := s.do(c.method, c.path, c.body, c.headers...)
		got := r.status()
		if got.Kind == "" {
			got.Message = strings.TrimSuffix(r.Body.String(), "\n")
		} else if got.Status != metav1.StatusFailure || int(got.Code) != r.Code {
			s.Errorf("%s: %+v", name, got)
		}
		if r.Code != c.code || got.Reason != c.reason || got.Message != c.message {
			s.Errorf("%s: got\n%d %s\n%s\nwant\n%d %s\n%s", name, r.Code, got.Reason, got.Message, c.code, c.reason,
				c.message)
		}
	}
	if after, err := s.store.Revision(s.Context()); err != nil || after != before {
		s.Errorf("%d writes reached the store, %v", after-before, err)
	}
}

// mapsPath is the path to config maps in a namespace, mapPath to one of them.
const (
	mapsPath = "/api/v1/namespaces/a/configmaps"
	mapPath  = mapsPath + "/x"
)
