package discovery

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestRemoved: what has lost its APIService is missing in the plain lists alone.
func TestRemoved(t *testing.T) {
	s := New(Config{Address: "192.0.2.1:6443", Hashes: true})
	s.Set(table())
	s.Arrange(nil, nil, map[schema.GroupVersion]bool{{Group: "apps", Version: "v1"}: true,
		{Group: "autoscaling", Version: "v2"}: true}, nil)
	c := s.content.Load()
	versions := func(path string) string {
		var groups []metav1.APIGroup
		switch list := c.plain(path, false).(type) {
		case *metav1.APIGroupList:
			groups = list.Groups
		case *metav1.APIGroup:
			groups = []metav1.APIGroup{*list}
		}
		var out []string
		for _, g := range groups {
			for _, v := range g.Versions {
				out = append(out, v.GroupVersion)
			}
		}
		return strings.Join(out, " ")
	}
	for path, want := range map[string]string{"/apis": "autoscaling/v1", "/apis/autoscaling": "autoscaling/v1",
		"/apis/apps": "apps/v1"} {
		if got := versions(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if all := fmt.Sprint(c.aggregated(false).Items); !strings.Contains(all, "apps") || !strings.Contains(all, "v2") {
		t.Errorf("aggregated: %s", all)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/apis/apps/v1", nil))
	if w.Code != http.StatusOK {
		t.Errorf("the version itself: %d", w.Code)
	}
}

// TestAggregatedPaths: lists of all resources are to be had at /api, /api/ and /apis, but not at /apis/.
func TestAggregatedPaths(t *testing.T) {
	s := New(Config{Address: "192.0.2.1:6443", Hashes: true})
	s.Set(table())
	for path, want := range map[string]string{"/api": "APIGroupDiscoveryList", "/api/": "APIGroupDiscoveryList",
		"/apis": "APIGroupDiscoveryList", "/apis/": "APIGroupList"} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"kind":"`+want+`"`) {
			t.Errorf("%s: %d %.200s", path, w.Code, w.Body)
		}
	}
}
