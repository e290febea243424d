// Package latency adds up what the time of a request goes to, for the audit events of those that take long. Only
// requests that are audited have such sums: the others pay a look into their context, and no clock is read for them.
package latency

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// Part is one of the things that time goes to.
type Part int

// The parts: those of upstream's that are measured in this package alone.
const (
	Authentication Part = iota
	Authorization
	Storage       // until the store has answered
	Transform     // what was found is given the form that was asked for, as the rows of a Table
	Serialization // that is encoded and written
	Writing       // it is written
	parts
)

// Times are those of one request. They are safe for concurrent use; nil notes nothing.
type Times [parts]Sum

// Key is where contexts have their *Times.
type Key struct{}

// From returns the times of a request that is audited, else nil.
func From(ctx context.Context) *Times {
	t, _ := ctx.Value(Key{}).(*Times)
	return t
}

// Begin returns the time, which the next Add wants.
func (t *Times) Begin() time.Time {
	if t == nil {
		return time.Time{}
	}
	return time.Now()
}

// Add notes that a part has taken the time since it began.
func (t *Times) Add(p Part, begin time.Time) {
	if t != nil {
		t[p].TrackDuration(time.Since(begin))
	}
}

// Serialize notes how long it takes to write an answer, without what is transformed meanwhile.
func (t *Times) Serialize(write func() error) error {
	if t == nil {
		return write()
	}
	begin, before := time.Now(), t[Transform].GetLatency()
	defer func() { t[Serialization].TrackDuration(time.Since(begin) - (t[Transform].GetLatency() - before)) }()
	return write()
}

// Tell makes the sums those that upstream's audit looks at.
func (t *Times) Tell(trackers *request.LatencyTrackers) {
	if t == nil {
		return
	}
	trackers.AuthenticationTracker, trackers.AuthorizationTracker = &t[Authentication], &t[Authorization]
	trackers.StorageTracker, trackers.TransformTracker = &t[Storage], &t[Transform]
	trackers.SerializationTracker, trackers.ResponseWriteTracker = &t[Serialization], &t[Writing]
}

// Sum implements request.DurationTracker.
type Sum struct{ taken atomic.Int64 }

// Track implements request.DurationTracker.
func (s *Sum) Track(f func()) {
	begin := time.Now()
	defer func() { s.TrackDuration(time.Since(begin)) }()
	f()
}

// TrackDuration implements request.DurationTracker.
func (s *Sum) TrackDuration(d time.Duration) { s.taken.Add(int64(d)) }

// GetLatency implements request.DurationTracker.
func (s *Sum) GetLatency() time.Duration { return time.Duration(s.taken.Load()) }
