// Package robustness checks histories: what clients saw of API servers on a cluster of etcd while both were killed,
// paused and cut off, against what an API server may answer and against what etcd has.
package robustness

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// verb is what a client asked of one object.
type verb string

const (
	create verb = "create"
	get    verb = "get"
	update verb = "update"
	remove verb = "delete"
)

// request is one call. Values are never used twice; expected is the resource version that an update or a delete insists
// on.
type request struct {
	verb     verb
	key      string
	value    string
	expected int64
}

// outcome is the result of a call that the client observes.
type outcome string

const (
	done     outcome = "done"
	notFound outcome = "not found"
	exists   outcome = "exists"
	conflict outcome = "conflict"
	// unknown: the connection broke, or the server reported an unknown outcome. A write may have happened.
	unknown outcome = "unknown"
)

type response struct {
	outcome outcome
	value   string
	version int64
}

// object is the model's state of one key. After a write of unknown outcome that did happen, its version is anyone's
// guess.
type object struct {
	exists  bool
	value   string
	version int64
}

const anyVersion = -1

func (o object) at(version int64) bool { return o.version == version || o.version == anyVersion }

// model says which responses an API server may give (https://kubernetes.io/docs/reference/using-api/api-concepts/):
// reads see the last write, writes happen once, a precondition that doesn't hold stops a write.
func model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byKey := map[string][]porcupine.Operation{}
			for _, o := range history {
				key := o.Input.(request).key
				byKey[key] = append(byKey[key], o)
			}
			parts := make([][]porcupine.Operation, 0, len(byKey))
			for _, part := range byKey {
				parts = append(parts, part)
			}
			return parts
		},
		Init: func() []any { return []any{object{}} },
		Step: func(state, in, out any) []any { return step(state.(object), in.(request), out.(response)) },
		DescribeOperation: func(in, out any) string {
			q, r := in.(request), out.(response)
			return fmt.Sprintf("%s %s %s@%d: %s %s@%d", q.verb, q.key, q.value, q.expected, r.outcome,
				r.value, r.version)
		},
		DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
	}
	return m.ToModel()
}

// step returns the states that may follow; none if the response can't be right.
func step(now object, q request, r response) []any {
	next, applies := effect(now, q)
	switch r.outcome {
	case unknown:
		if applies && q.verb != get {
			return []any{now, next}
		}
		return []any{now}
	case notFound:
		if !now.exists && q.verb != create {
			return []any{now}
		}
	case exists:
		if now.exists && q.verb == create {
			return []any{now}
		}
	case conflict:
		if now.exists && now.version != q.expected && (q.verb == update || q.verb == remove) {
			return []any{now}
		}
	case done:
		switch {
		case !applies:
		case q.verb == get && now.value == r.value && now.at(r.version),
			q.verb == create, q.verb == update:
			next.version = r.version
			return []any{next}
		case q.verb == remove:
			return []any{next}
		}
	}
	return nil
}

// effect is what the request makes of an object if it succeeds, and whether it can.
func effect(now object, q request) (object, bool) {
	switch q.verb {
	case create:
		return object{exists: true, value: q.value, version: anyVersion}, !now.exists
	case get:
		return now, now.exists
	case update:
		return object{exists: true, value: q.value, version: anyVersion}, now.exists && now.at(q.expected)
	default:
		return object{}, now.exists && now.at(q.expected)
	}
}
