package robustness

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// at makes an operation on the one key of a history.
func at(call, end int64, q request, r response) porcupine.Operation {
	q.key = "k"
	return porcupine.Operation{Input: q, Output: r, Call: call, Return: end}
}

func TestModel(t *testing.T) {
	made := at(0, 10, request{verb: create, value: "a"}, response{outcome: done, version: 5})
	read := func(call int64, value string, version int64) porcupine.Operation {
		return at(call, call+5, request{verb: get}, response{outcome: done, value: value, version: version})
	}
	for _, test := range []struct {
		name    string
		history []porcupine.Operation
		want    bool
	}{
		{"write, then read", []porcupine.Operation{made, read(20, "a", 5)}, true},
		{"a read of what was never written", []porcupine.Operation{made, read(20, "b", 5)}, false},
		{"a read of another version", []porcupine.Operation{made, read(20, "a", 6)}, false},
		{"a lost write", []porcupine.Operation{made, at(20, 25, request{verb: get}, response{outcome: notFound})},
			false},
		{"a read beside the write",
			[]porcupine.Operation{made, at(5, 25, request{verb: get}, response{outcome: notFound})}, true},
		{"a stale read", []porcupine.Operation{
			made, at(11, 12, request{verb: update, value: "b", expected: 5},
				response{outcome: done, version: 6}), read(20, "a", 5),
		}, false},
		{"two updates of one version", []porcupine.Operation{
			made, at(11, 30, request{verb: update, value: "b", expected: 5}, response{outcome: done, version: 6}),
			at(11, 30, request{verb: update, value: "c", expected: 5}, response{outcome: done, version: 7}),
		}, false},
		{"a conflict without another write", []porcupine.Operation{
			made, at(11, 30, request{verb: update, value: "b", expected: 5}, response{outcome: conflict}),
		}, false},
		{"an unknown update that happened", []porcupine.Operation{
			made, at(11, 90, request{verb: update, value: "b", expected: 5},
				response{outcome: unknown}), read(20, "b", 9),
		}, true},
		{"an unknown update that didn't", []porcupine.Operation{
			made, at(11, 90, request{verb: update, value: "b", expected: 5},
				response{outcome: unknown}), read(20, "a", 5),
		}, true},
		{"an unknown update that happened, and then not", []porcupine.Operation{
			made, at(11, 12, request{verb: update, value: "b", expected: 5}, response{outcome: unknown}), read(20, "b",
				9), read(30, "a", 5),
		}, false},
		{"two creations",
			[]porcupine.Operation{made,
				at(11, 12, request{verb: create, value: "b"}, response{outcome: done, version: 9})}, false},
		{"a second creation is refused",
			[]porcupine.Operation{made, at(11, 12, request{verb: create, value: "b"}, response{outcome: exists})},
			true},
		{"deletion of another version",
			[]porcupine.Operation{made, at(11, 12, request{verb: remove, expected: 4}, response{outcome: done})},
			false},
		{"deletion, then absence", []porcupine.Operation{
			made, at(11, 12, request{verb: remove, expected: 5}, response{outcome: done}),
			at(20, 21, request{verb: update, value: "b", expected: 5}, response{outcome: notFound}),
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := porcupine.CheckOperations(model(), test.history); got != test.want {
				t.Errorf("linearizable: %t", got)
			}
		})
	}
}
