package apiserver

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/components/apiserver/options"
)

// TestBeforeAllIsInstalled: until custom resources and the APIs of other servers are known, only what is sure not to be
// there isn't.
func TestBeforeAllIsInstalled(t *testing.T) {
	s, err := New(options.Config{Storage: options.StorageMemory, BindAddress: net.IPv4(127, 0, 0, 1),
		AuthorizationModes: []string{"RBAC"}})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(when string, codes map[string]int) {
		t.Helper()
		for path, code := range codes {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r = r.WithContext(request.WithUser(r.Context(),
				&user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}))
			w := httptest.NewRecorder()
			s.front.Handler().ServeHTTP(w, r)
			if w.Code != code {
				t.Errorf("%s: %s: %d %s", when, path, w.Code, w.Body)
			}
		}
	}
	expect("at first", map[string]int{
		"/apis/example.com/v1/widgets": 503, "/apis/example.com/v1": 503, "/apis/example.com": 503, "/nothing": 503,
		"/apis/apps/v1/nothing": 404, "/apis/apps/v1": 200,
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-ended:
		t.Fatal(err)
	}
	expect("when it is ready",
		map[string]int{"/apis/example.com/v1/widgets": 404, "/apis/example.com/v1": 404, "/apis/example.com": 404,
			"/nothing": 404})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
