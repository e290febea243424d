package openapi

import "testing"

func TestArticles(t *testing.T) {
	for kind, want := range map[string]string{"Pod": "a Pod", "Event": "an Event", "apple": "an apple",
		"Endpoints": "Endpoints", "Class": "a Class"} {
		if got := a(kind); got != want {
			t.Errorf("%s: %s", kind, got)
		}
	}
}
