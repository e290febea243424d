package checks

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// ErrNotLinearizable says that no order of the operations explains their answers.
var ErrNotLinearizable = errors.New("not linearizable")

// Linearizable checks that the operations have an order in which each answer is right, and which agrees with their
// times: reads see the last write, writes happen once, and a precondition that does not hold stops a write
// (https://kubernetes.io/docs/reference/using-api/api-concepts/). The error is ErrNotLinearizable and names an object
// and its operations, or says that the search took longer than limit. It takes short histories of each object: some
// hundred operations, and few of unknown outcome.
func Linearizable(operations []Operation, limit time.Duration) error {
	all := history(operations)
	switch porcupine.CheckOperationsTimeout(model(), all, limit) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("no order of %d operations was found within %v", len(operations), limit)
	}
	for _, part := range partition(all) {
		if porcupine.CheckOperationsTimeout(model(), part, limit) == porcupine.Illegal {
			return fmt.Errorf("%w: %s", ErrNotLinearizable, describe(part))
		}
	}
	return ErrNotLinearizable
}

// Visualize writes a page that shows the operations, and how far they could be put in order.
func Visualize(w io.Writer, operations []Operation, limit time.Duration) error {
	_, info := porcupine.CheckOperationsVerbose(model(), history(operations), limit)
	return porcupine.Visualize(model(), info, w)
}

// mostDescribed is how many operations an error tells.
const mostDescribed = 40

func describe(part []porcupine.Operation) string {
	slices.SortFunc(part, func(a, b porcupine.Operation) int { return int(min(max(a.Call-b.Call, -1), 1)) })
	var b strings.Builder
	fmt.Fprintf(&b, "%d operations on %s", len(part), part[0].Input.(Request).Key)
	for _, o := range part[max(0, len(part)-mostDescribed):] {
		until := "..."
		if o.Output.(Response).Outcome != Unknown {
			until = time.Duration(o.Return).String()
		}
		fmt.Fprintf(&b, "\n%v-%s client %d: %s", time.Duration(o.Call), until, o.ClientId,
			describeOperation(o.Input, o.Output))
	}
	return b.String()
}

func describeOperation(in, out any) string {
	q, r := in.(Request), out.(Response)
	return fmt.Sprintf("%s %s %s@%d: %s %s@%d", q.Verb, q.Key, q.Value, q.Version, r.Outcome, r.Value, r.Version)
}

func history(operations []Operation) []porcupine.Operation {
	out := make([]porcupine.Operation, 0, len(operations))
	for _, o := range operations {
		out = append(out, porcupine.Operation{ClientId: o.Client, Input: o.Request, Output: o.Response,
			Call: int64(o.Called), Return: int64(o.Returned)})
	}
	return out
}

// state is the model's, of one key. After a write of unknown outcome that did happen, its version is unknown.
type state struct {
	exists  bool
	value   string
	version int64
}

const anyVersion = -1

// at tells whether a precondition may hold.
func (s state) at(version int64) bool {
	return version == 0 || s.version == version || s.version == anyVersion
}

func model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: partition,
		// An object may have been there before the history began.
		Init:              func() []any { return []any{state{}, state{exists: true, version: anyVersion}} },
		Step:              func(now, in, out any) []any { return step(now.(state), in.(Request), out.(Response)) },
		DescribeOperation: describeOperation,
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
	}
	return m.ToModel()
}

func partition(all []porcupine.Operation) [][]porcupine.Operation {
	byKey := map[string][]porcupine.Operation{}
	for _, o := range all {
		key := o.Input.(Request).Key
		byKey[key] = append(byKey[key], o)
	}
	parts := make([][]porcupine.Operation, 0, len(byKey))
	for _, part := range byKey {
		parts = append(parts, part)
	}
	return parts
}

// step returns the states that may follow; none if the response can't be right.
func step(now state, q Request, r Response) []any {
	next, applies := effect(now, q)
	switch r.Outcome {
	case Unknown:
		if applies && q.Verb != Get {
			return []any{now, next}
		}
		return []any{now}
	case NotFound:
		if !now.exists && q.Verb != Create && q.Verb != Apply {
			return []any{now}
		}
	case Exists:
		if now.exists && q.Verb == Create {
			return []any{now}
		}
	case Conflict: // without a version of its own, the write has raced with another, or fields have another manager
		if now.exists && now.version != q.Version && q.Verb != Create && q.Verb != Get {
			return []any{now}
		}
	case Done:
		if applies {
			return finished(now, next, q, r)
		}
	}
	return nil
}

// finished returns the states after a request that was carried out.
func finished(now, next state, q Request, r Response) []any {
	switch {
	case q.Verb == Get && (now.value != r.Value || !now.at(r.Version)), r.Version != 0 && r.Version < now.version:
		return nil
	case q.Verb == Delete && !r.MayBeGone:
		return []any{next}
	}
	if q.Verb == Delete {
		next = now
	}
	next.exists, next.version = true, r.Version
	if r.MayBeGone {
		return []any{state{}, next}
	}
	return []any{next}
}

// effect is what the request makes of an object if it succeeds, and whether it can.
func effect(now state, q Request) (state, bool) {
	written := state{exists: true, value: q.Value, version: anyVersion}
	switch q.Verb {
	case Create:
		return written, !now.exists
	case Get:
		return now, now.exists
	case Update:
		return written, now.exists && now.at(q.Version)
	case Apply:
		return written, !now.exists && q.Version == 0 || now.exists && now.at(q.Version)
	default:
		return state{}, now.exists && now.at(q.Version)
	}
}
