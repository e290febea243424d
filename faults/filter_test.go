package faults

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// TestFilter: it disturbs by the authenticated user from the moment that it has a plan, and counts from there.
func TestFilter(t *testing.T) {
	f := &Filter{}
	h := f.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	do := func(method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r = r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: "system:kube-scheduler"}))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	const pods = "/api/v1/namespaces/ns/pods"
	if w := do("GET", pods, ""); w.Code != http.StatusOK {
		t.Errorf("without a plan: %d", w.Code)
	}
	if w := do("GET", Path, ""); strings.TrimSpace(w.Body.String()) != "[]" {
		t.Errorf("without a plan the log is %s", w.Body)
	}
	if w := do("PUT", Path, "rules: [{fault: {status: 20}}]"); w.Code != http.StatusBadRequest ||
		!strings.Contains(w.Body.String(), "fault.status: 20") {
		t.Errorf("a bad plan: %d %s", w.Code, w.Body)
	}
	plan := `{"rules": [{"match": {"users": ["system:kube-*"]}, "times": 1, "fault": {"status": 500}}]}`
	for range 2 { // the second begins again
		if w := do("PUT", Path, plan); w.Code != http.StatusNoContent {
			t.Errorf("a plan: %d %s", w.Code, w.Body)
		}
		if w := do("GET", pods, ""); w.Code != http.StatusInternalServerError {
			t.Errorf("the first request: %d", w.Code)
		}
		if w := do("GET", pods, ""); w.Code != http.StatusOK {
			t.Errorf("the second request: %d", w.Code)
		}
	}
	var log []Injected
	if err := json.Unmarshal(do("GET", Path, "").Body.Bytes(), &log); err != nil || len(log) != 1 ||
		log[0].User != "system:kube-scheduler" || log[0].Verb != "list" || log[0].Fault.Status != 500 {
		t.Errorf("the log is %+v, %v", log, err)
	}
	if w := do("POST", Path, ""); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") == "" {
		t.Errorf("another method: %d", w.Code)
	}
}
