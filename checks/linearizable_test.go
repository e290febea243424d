package checks

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// at makes an operation on the one key of a history.
func at(call, end time.Duration, q Request, r Response) Operation {
	q.Key = "k"
	return Operation{Request: q, Response: r, Called: call, Returned: end}
}

func TestLinearizable(t *testing.T) {
	made := at(0, 10, Request{Verb: Create, Value: "a"}, Response{Outcome: Done, Version: 5})
	read := func(call time.Duration, value string, version int64) Operation {
		return at(call, call+5, Request{Verb: Get}, Response{Outcome: Done, Value: value, Version: version})
	}
	for _, test := range []struct {
		name    string
		history []Operation
		want    bool
	}{
		{"write, then read", []Operation{made, read(20, "a", 5)}, true},
		{"a read of what was never written", []Operation{made, read(20, "b", 5)}, false},
		{"a read of another version", []Operation{made, read(20, "a", 6)}, false},
		{"a lost write", []Operation{made, at(20, 25, Request{Verb: Get}, Response{Outcome: NotFound})},
			false},
		{"a read beside the write",
			[]Operation{made, at(5, 25, Request{Verb: Get}, Response{Outcome: NotFound})}, true},
		{"a stale read", []Operation{
			made, at(11, 12, Request{Verb: Update, Value: "b", Version: 5},
				Response{Outcome: Done, Version: 6}), read(20, "a", 5),
		}, false},
		{"two updates of one version", []Operation{
			made, at(11, 30, Request{Verb: Update, Value: "b", Version: 5}, Response{Outcome: Done, Version: 6}),
			at(11, 30, Request{Verb: Update, Value: "c", Version: 5}, Response{Outcome: Done, Version: 7}),
		}, false},
		{"a conflict without another write", []Operation{
			made, at(11, 30, Request{Verb: Update, Value: "b", Version: 5}, Response{Outcome: Conflict}),
		}, false},
		{"an unknown update that happened", []Operation{
			made, at(11, 90, Request{Verb: Update, Value: "b", Version: 5},
				Response{Outcome: Unknown}), read(20, "b", 9),
		}, true},
		{"an unknown update that didn't", []Operation{
			made, at(11, 90, Request{Verb: Update, Value: "b", Version: 5},
				Response{Outcome: Unknown}), read(20, "a", 5),
		}, true},
		{"an unknown update that happened, and then not", []Operation{
			made, at(11, 12, Request{Verb: Update, Value: "b", Version: 5}, Response{Outcome: Unknown}), read(20, "b",
				9), read(30, "a", 5),
		}, false},
		{"two creations",
			[]Operation{made,
				at(11, 12, Request{Verb: Create, Value: "b"}, Response{Outcome: Done, Version: 9})}, false},
		{"a second creation is refused",
			[]Operation{made, at(11, 12, Request{Verb: Create, Value: "b"}, Response{Outcome: Exists})},
			true},
		{"deletion of another version",
			[]Operation{made, at(11, 12, Request{Verb: Delete, Version: 4}, Response{Outcome: Done})},
			false},
		{"deletion, then absence", []Operation{
			made, at(11, 12, Request{Verb: Delete, Version: 5}, Response{Outcome: Done}),
			at(20, 21, Request{Verb: Update, Value: "b", Version: 5}, Response{Outcome: NotFound}),
		}, true},
		{"an object that was there", []Operation{
			at(1, 2, Request{Verb: Get}, Response{Outcome: Done, Version: 3}),
			at(3, 4, Request{Verb: Update}, Response{Outcome: Done, Version: 4}),
			at(5, 6, Request{Verb: Get}, Response{Outcome: Done, Version: 3}),
		}, false},
		{"an update without a version", []Operation{made, at(11, 12, Request{Verb: Update, Value: "b"},
			Response{Outcome: Done, Version: 6}), read(20, "b", 6)}, true},
		{"an update at an older version than before", []Operation{made, at(11, 12, Request{Verb: Update, Value: "b"},
			Response{Outcome: Done, Version: 4})}, false},
		{"apply makes and changes", []Operation{
			at(0, 1, Request{Verb: Apply, Value: "a"}, Response{Outcome: Done, Version: 2}),
			at(2, 3, Request{Verb: Apply, Value: "b"}, Response{Outcome: Done, Version: 3}), read(5, "b", 3)}, true},
		{"deletion that waits for a finalizer, which goes", []Operation{made,
			at(11, 12, Request{Verb: Delete}, Response{Outcome: Done, Version: 6, MayBeGone: true}), read(13, "a", 6),
			at(20, 21, Request{Verb: Update, Value: "b"}, Response{Outcome: Done, Version: 7, MayBeGone: true}),
			at(30, 31, Request{Verb: Get}, Response{Outcome: NotFound})}, true},
		{"deletion that waits for a finalizer, which stays", []Operation{made,
			at(11, 12, Request{Verb: Delete}, Response{Outcome: Done, Version: 6, MayBeGone: true}), read(13, "a", 6),
			at(30, 31, Request{Verb: Get}, Response{Outcome: NotFound})}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := Linearizable(test.history, time.Minute)
			if (err == nil) != test.want || err != nil && !errors.Is(err, ErrNotLinearizable) {
				t.Errorf("linearizable: %v", err)
			}
			var page strings.Builder
			if err := Visualize(&page, test.history, time.Minute); err != nil || !strings.Contains(page.String(), " k ") {
				t.Errorf("no page: %v", err)
			}
		})
	}
}
