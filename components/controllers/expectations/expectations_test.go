package expectations

import (
	"errors"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestTracker(t *testing.T) {
	fake := clocktesting.NewFakeClock(time.Unix(1000, 0))
	tracker := New(fake)
	want := func(step string, satisfied bool) {
		t.Helper()
		if got := tracker.Satisfied("ns/a"); got != satisfied {
			t.Fatalf("%s: satisfied = %v, want %v", step, got, satisfied)
		}
	}
	want("nothing expected", true)
	tracker.ExpectCreations("ns/a", 2)
	want("two creations pending", false)
	tracker.CreationObserved("ns/a")
	want("one creation pending", false)
	tracker.CreationObserved("ns/a")
	want("creations observed", true)

	failure := errors.New("refused")
	err := tracker.Create("ns/a", func() error {
		want("during the call", false)
		return failure
	})
	if err != failure {
		t.Errorf("error %v", err)
	}
	want("the creation failed", true)
	if err := tracker.Create("ns/a", func() error { return nil }); err != nil {
		t.Error(err)
	}
	want("created, not seen", false)
	tracker.CreationObserved("ns/a")

	tracker.ExpectDeletions("ns/a", "u1", "u2")
	tracker.DeletionObserved("ns/a", "u1")
	tracker.DeletionObserved("ns/a", "u1")
	want("one deletion seen twice", false)
	tracker.DeletionObserved("ns/a", "u2")
	want("both deletions seen", true)

	tracker.ExpectCreations("ns/a", 1)
	fake.Step(lifetime)
	want("given up", true)

	tracker.ExpectCreations("ns/a", 1)
	tracker.Forget("ns/a")
	want("forgotten", true)
	if !tracker.Satisfied("ns/other") {
		t.Fatal("another key was touched")
	}
}
