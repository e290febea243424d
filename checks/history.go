package checks

import (
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Verb is what a client asks of one object.
type Verb string

// Apply is server-side apply, which creates what is not there.
const (
	Create Verb = "create"
	Get    Verb = "get"
	Update Verb = "update"
	Apply  Verb = "apply"
	Delete Verb = "delete"
)

// Request is one call for one object.
type Request struct {
	Verb Verb
	// Key names the object.
	Key string
	// Value is the content of a write, if it is compared: each write has another, and reads have the one they found.
	Value string
	// Version is the resource version that an update or a delete insists on, 0 for none.
	Version int64
}

// Outcome is the result of a call that the client observes.
type Outcome string

const (
	Done     Outcome = "done"
	NotFound Outcome = "not found"
	Exists   Outcome = "exists"
	Conflict Outcome = "conflict"
	// Unknown means that no answer came, or that the server reported an unknown outcome: a write may have happened.
	Unknown Outcome = "unknown"
	// Refused means that the request was not carried out, for a reason that tells nothing about the object.
	Refused Outcome = "refused"
)

// Response is the answer to a Request.
type Response struct {
	Outcome Outcome
	Value   string
	// Version is the resource version of the object that was returned, 0 without one.
	Version int64
	// MayBeGone tells of an object that was returned by a write while it was being deleted: it may be gone by that, or
	// stay at Version.
	MayBeGone bool
}

// Operation is a call that ended. Times are since the history began.
type Operation struct {
	Client int
	Request
	Response
	Called   time.Duration
	Returned time.Duration // math.MaxInt64 of a write of unknown outcome: it may still happen
}

// History is what clients asked of single objects, and what they were answered, by the clock of this process. It is
// safe for concurrent use.
type History struct {
	began time.Time

	mu         sync.Mutex
	clients    int
	operations []Operation
}

// NewHistory returns an empty history that begins now.
func NewHistory() *History { return &History{began: time.Now()} }

// Record returns a configuration with which clients make requests that the history notes: of the verbs get, create,
// update, patch and delete, for single objects and their status. Content is not compared, versions are.
//
// All clients that write these objects must be recorded, and no collection may be deleted: a history that lacks a write
// is not linearizable.
func (h *History) Record(config *rest.Config) *rest.Config {
	h.mu.Lock()
	client := h.clients
	h.clients++
	h.mu.Unlock()
	return record(config, func(recorded) func(Response, recorded) {
		called := h.Now()
		return func(answer Response, r recorded) { h.note(client, r.Request, answer, called) }
	})
}

// Begin notes that a client sends a request, for clients that are not made of a configuration (Record). The function
// that it returns notes the response, and is called once.
func (h *History) Begin(client int, q Request) func(Response) {
	called := h.Now()
	return func(r Response) { h.note(client, q, r, called) }
}

func (h *History) note(client int, q Request, r Response, called time.Duration) {
	returned := h.Now()
	if r.Outcome == Refused || r.Outcome == Unknown && (q.Verb == Get || q.Key == "") {
		return // tells nothing
	}
	if r.Outcome == Unknown {
		returned = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, Operation{client, q, r, called, returned})
}

// Now is the time since the history began.
func (h *History) Now() time.Duration { return time.Since(h.began) }

// Operations are those that have ended.
func (h *History) Operations() []Operation {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.operations)
}
