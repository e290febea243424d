package robustness

import (
	"testing"

	"k8s.io/apimachinery/pkg/watch"
)

func TestVerify(t *testing.T) {
	made := event{10, watch.Added, "a", "1"}
	changed := event{12, watch.Modified, "a", "2"}
	gone := event{15, watch.Deleted, "a", "2"}
	other := event{17, watch.Added, "b", "3"}
	happened := &truth{events: []event{made, changed, gone, other}}
	for _, test := range []struct {
		name    string
		stretch stretch
		ok      bool
	}{
		{"everything", stretch{from: 9, events: happened.events}, true},
		{"the end is still to come", stretch{from: 9, events: []event{made, changed}}, true},
		{"from a list", stretch{from: 12, state: map[string]event{"a": {12, watch.Added, "a", "2"}},
			events: []event{gone, other}}, true},
		{"lost at the start", stretch{from: 9, events: []event{changed, gone}}, false},
		{"lost in between", stretch{from: 9, events: []event{made, gone, other}}, false},
		{"twice", stretch{from: 9, events: []event{made, made, changed}}, false},
		{"out of order", stretch{from: 9, events: []event{changed, made}}, false},
		{"never happened", stretch{from: 17, events: []event{{18, watch.Added, "c", "4"}}}, false},
		{"another value", stretch{from: 9, events: []event{{10, watch.Added, "a", "2"}}}, false},
		{"a list that lacks something", stretch{from: 12, state: map[string]event{}}, false},
		{"a list of the past", stretch{from: 12, state: map[string]event{"a": {10, watch.Added, "a", "1"}}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := happened.verify(&watcher{stretches: []stretch{test.stretch}}); (err == nil) != test.ok {
				t.Errorf("%v", err)
			}
		})
	}
}
