package checks

import (
	"testing"

	"k8s.io/apimachinery/pkg/watch"
)

func TestStretches(t *testing.T) {
	at := func(kind watch.EventType, uid string, version int, value string) Event {
		e, err := EventOf(kind, object(uid, version))
		if err != nil {
			t.Fatal(err)
		}
		e.Value = value
		return e
	}
	added, modified := at(watch.Added, "a", 10, "1"), at(watch.Modified, "a", 12, "2")
	deleted, other := at(watch.Deleted, "a", 15, "2"), at(watch.Added, "b", 17, "3")
	again, early := at(watch.Added, "a", 19, "4"), at(watch.Added, "a", 12, "2")
	all := []Event{added, modified, deleted, other, again}
	listed := func(events ...Event) map[string]Event {
		out := map[string]Event{}
		for _, e := range events {
			out[e.Name] = e
		}
		return out
	}
	for name, test := range map[string]struct {
		stretch         Stretch
		order, complete string
	}{
		"everything":            {Stretch{From: 9, Events: all}, "", ""},
		"the end is to come":    {Stretch{From: 9, Events: all[:2]}, "", ""},
		"from a list":           {Stretch{12, listed(at(watch.Added, "a", 12, "2")), all[2:]}, "", ""},
		"from an empty list":    {Stretch{16, listed(), all[3:]}, "", ""},
		"lost at the start":     {Stretch{From: 9, Events: all[1:3]}, "", "event 0 since 9"},
		"lost in between":       {Stretch{From: 9, Events: []Event{added, deleted}}, "", "event 1 since 9"},
		"out of order":          {Stretch{From: 9, Events: []Event{modified, added}}, "comes after one at 12", "event 0"},
		"twice":                 {Stretch{From: 9, Events: []Event{added, added}}, "comes after one at 10", "event 1"},
		"added again":           {Stretch{From: 9, Events: []Event{added, early}}, "added again", "event 1"},
		"of what was not there": {Stretch{9, listed(), all[1:2]}, "was not there", "event 0"},
		"never happened":        {Stretch{From: 19, Events: []Event{at(watch.Added, "c", 20, "")}}, "", "never happened"},
		"another value":         {Stretch{From: 9, Events: []Event{at(watch.Added, "a", 10, "2")}}, "", "event 0"},
		"a list that lacks one": {Stretch{From: 12, Listed: listed()}, "", "has 0 objects"},
		"a list of the past":    {Stretch{From: 12, Listed: listed(added)}, "", "the list at 12 has"},
		"before the reference":  {Stretch{From: 3}, "", "the reference at 5"},
	} {
		t.Run(name, func(t *testing.T) {
			told(t, test.stretch.Order(), test.order)
			told(t, test.stretch.Complete(Stretch{From: 5, Events: all}), test.complete)
		})
	}
	later := Stretch{From: 12, Listed: listed(at(watch.Added, "a", 12, "2")), Events: all[2:]}
	told(t, Stretch{From: 16, Listed: listed(), Events: all[3:]}.Complete(later), "")
	told(t, Stretch{From: 13, Listed: listed(), Events: all[2:]}.Complete(later), "has 0 objects")
}
