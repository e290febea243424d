package show

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// TestAgoUntil looks at ages around every step of what is shown: until the time that a cell names, its text is the
// same, and it doesn't name a time much too early.
func TestAgoUntil(t *testing.T) {
	born := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	cell := Ago{Before: "5 (", Since: born, After: " ago)"}
	var ages []time.Duration
	for _, at := range []time.Duration{
		0, time.Second, time.Minute, 2 * time.Minute, 10 * time.Minute, time.Hour, 3 * time.Hour, 8 * time.Hour, day,
		2 * day, 8 * day,
		100 * day, year, 2 * year, 3 * year, 8 * year, 20 * year,
	} {
		for _, off := range []time.Duration{0, 1, time.Millisecond, time.Second - 1, time.Second, 2 * time.Second,
			time.Minute, time.Hour, day} {
			ages = append(ages, at+off, at-off)
		}
	}
	for _, age := range ages {
		now := born.Add(age)
		text, until := cell.At(now)
		if want := "5 (" + duration.HumanDuration(age) + " ago)"; text != want {
			t.Errorf("age %v: %q, want %q", age, text, want)
		}
		if !until.After(now) {
			t.Errorf("age %v: %q holds until %v before", age, text, until.Sub(now))
		}
		if later, _ := cell.At(until.Add(-1)); later != text {
			t.Errorf("age %v: %q is said to hold for %v, but becomes %q", age, text, until.Sub(now), later)
		}
		next := until
		for range 24 { // days are shown with their hours, but not the first
			var later string
			if later, next = cell.At(next); later != text {
				break
			}
		}
		if later, _ := cell.At(next); later == text {
			t.Errorf("age %v: %q is said to hold for %v only", age, text, until.Sub(now))
		}
	}
}

func TestAge(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	got := At([]any{"a", Age(metav1.NewTime(now.Add(-time.Hour))), Age(metav1.Time{})}, now)
	if got[0] != "a" || got[1] != "60m" || got[2] != Unknown {
		t.Errorf("%v", got)
	}
}
