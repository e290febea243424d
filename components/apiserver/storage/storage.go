// Package storage is the contract between the API server and what keeps its objects: ordered keys, opaque values,
// and one growing revision over all of them, as etcd has it. etcd and memory implement it; storagetest is the proof.
package storage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors of a Store. Everything else is a fault of transport or of the store itself, and may be retried by the caller
// only for reads: a write that failed that way may have happened.
var (
	// ErrNotFound: the key does not exist.
	ErrNotFound = errors.New("storage: key not found")
	// ErrExists: Create met an existing key.
	ErrExists = errors.New("storage: key exists")
	// ErrCompacted: the revision asked for is no longer kept.
	ErrCompacted = errors.New("storage: revision is compacted")
	// ErrFuture: the revision asked for lies ahead of the store's.
	ErrFuture = errors.New("storage: revision is in the future")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("storage: closed")
)

// ConflictError is returned by Update and Delete when the key is not at the expected revision. Current is what the same
// transaction found, so that the caller can try again without another read; its Revision is 0 when the key is gone.
type ConflictError struct {
	Current KeyValue
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("storage: %q is at revision %d", e.Current.Key, e.Current.Revision)
}

// TooLargeError is returned by Create and Update when the store takes no value of that size. Err says so in the store's
// words.
type TooLargeError struct{ Err error }

func (e *TooLargeError) Error() string { return e.Err.Error() }
func (e *TooLargeError) Unwrap() error { return e.Err }

// UnsealedError is returned by Create and Update when the value could not be encrypted: nothing was written. Err says
// why.
type UnsealedError struct{ Err error }

func (e *UnsealedError) Error() string { return e.Err.Error() }
func (e *UnsealedError) Unwrap() error { return e.Err }

// KeyValue is one key at the revision of its last change. Value is shared: it must not be changed.
type KeyValue struct {
	Key      string
	Value    []byte
	Revision int64
	// Stale says that the value lies in the store in a form that is no longer written (with an old key of encryption):
	// it is to be written again, even when it is the same.
	Stale bool
	// Unreadable says why the value could not be made out of what lies in the store; Value is then empty. It is a fault
	// of this one value, and the reads that find it succeed.
	Unreadable error
	// Memo is for what readers make of Value; nil where the store has no such place.
	Memo *Memo
}

// Range asks for keys in order.
type Range struct {
	Prefix   string // ends in "/", or is a whole key
	From     string // first key wanted, inclusive; "" starts at Prefix
	Limit    int64  // 0 means all
	Revision int64  // read as of this revision; 0 means now
}

// Page is the answer to a Range.
type Page struct {
	Items    []KeyValue
	Revision int64 // of the store when it answered, or the one asked for
	More     bool
	// Remaining counts the keys after the page; exact when More.
	Remaining int64
}

// EventType tells what happened to a key.
type EventType int

// Kinds of events. Progress carries no key, only a revision: all events up to it have been delivered.
const (
	Put EventType = iota
	Delete
	Progress
)

// Event is one change. For Delete, Value is empty. The previous value is not included: a client that follows from a
// list knows it, and the store needn't send it.
type Event struct {
	Type     EventType
	KeyValue // Revision is that of the change, also for Delete
}

// Watcher delivers the events of a watch in the order of their revisions, none lost, none twice.
type Watcher interface {
	// Events is closed when the watch has ended; Err then tells why. All events of one revision come in one batch.
	Events() <-chan []Event
	// Err is nil when the watch's context ended it, ErrCompacted when the start is no longer kept.
	Err() error
}

// Store keeps values. All methods are safe for concurrent use, and every write is one transaction.
type Store interface {
	// Get reads one key, linearizably. Errors: ErrNotFound.
	Get(ctx context.Context, key string) (KeyValue, error)
	// List reads a range. Errors: ErrCompacted, ErrFuture.
	List(ctx context.Context, r Range) (Page, error)
	// Create writes a key that must not exist and returns its revision. The key is removed after ttl unless ttl is 0.
	// Errors: ErrExists, *TooLargeError, *UnsealedError.
	Create(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error)
	// Update replaces a value that must be at revision expected. ttl as in Create. Errors: *ConflictError,
	// *TooLargeError,
	// *UnsealedError.
	Update(ctx context.Context, key string, value []byte, expected int64, ttl time.Duration) (int64, error)
	// Delete removes a key that must be at revision expected. Errors: *ConflictError.
	Delete(ctx context.Context, key string, expected int64) (int64, error)
	// Watch delivers the changes below prefix with a revision greater than after, until ctx ends. A Progress event
	// follows each call of RequestProgress, and from time to time.
	Watch(ctx context.Context, prefix string, after int64) Watcher
	// RequestProgress asks all watches of this store for a Progress event soon.
	RequestProgress(ctx context.Context) error
	// Revision returns the store's current revision, linearizably.
	Revision(ctx context.Context) (int64, error)
	// Compact forgets what was before revision.
	Compact(ctx context.Context, revision int64) error
	// Close ends all watches and frees what the store holds.
	Close() error
}
