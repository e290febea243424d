package latency

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// TestTimes: each part has the sum of its own times, and upstream's audit is told the right one.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times := &Times{}
		for part := range parts {
			for range 2 {
				begin := times.Begin()
				time.Sleep(time.Duration(part+1) * time.Second)
				times.Add(part, begin)
			}
		}
		trackers := &request.LatencyTrackers{}
		times.Tell(trackers)
		for i, tracker := range []request.DurationTracker{
			trackers.AuthenticationTracker, trackers.AuthorizationTracker, trackers.StorageTracker,
			trackers.TransformTracker, trackers.SerializationTracker, trackers.ResponseWriteTracker,
		} {
			if got, want := tracker.GetLatency(), 2*time.Duration(i+1)*time.Second; got != want {
				t.Errorf("part %d: %v, want %v", i, got, want)
			}
		}
	})
}

// TestSerialize: what is transformed while an object is encoded counts once, and errors are passed on.
func TestSerialize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times, failure := &Times{}, errors.New("connection reset")
		transform := func() {
			begin := times.Begin()
			time.Sleep(time.Second)
			times.Add(Transform, begin)
		}
		transform() // before
		err := times.Serialize(func() error {
			transform()
			time.Sleep(time.Minute)
			return failure
		})
		if got := times[Serialization].GetLatency(); got != time.Minute || err != failure {
			t.Errorf("serialization %v, %v", got, err)
		}
		if got := times[Transform].GetLatency(); got != 2*time.Second {
			t.Errorf("transform %v", got)
		}
	})
}

// TestNone: a request that is not audited has no times, and everything works without.
func TestNone(t *testing.T) {
	times := From(t.Context())
	if times != nil || !times.Begin().IsZero() {
		t.Errorf("times %v, begin %v", times, times.Begin())
	}
	times.Add(Storage, time.Now())
	called := false
	if err := times.Serialize(func() error { called = true; return nil }); err != nil || !called {
		t.Errorf("called %v, %v", called, err)
	}
	trackers := &request.LatencyTrackers{}
	if times.Tell(trackers); trackers.StorageTracker != nil {
		t.Error("trackers without times")
	}
	audited := &Times{}
	if From(context.WithValue(t.Context(), Key{}, audited)) != audited {
		t.Error("the times of an audited request are not found")
	}
}

func TestSumTracks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sum Sum
		sum.TrackDuration(time.Minute)
		sum.Track(func() { time.Sleep(time.Second) })
		if got := sum.GetLatency(); got != time.Minute+time.Second {
			t.Errorf("%v", got)
		}
	})
}
