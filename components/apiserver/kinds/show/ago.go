package show

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Ago is a cell that tells how long ago something was, between two texts: what it says depends on when it is read.
type Ago struct {
	Before string
	Since  time.Time
	After  string
}

// Age is a cell of the time since t, as people read it.
func Age(t metav1.Time) any {
	if t.IsZero() {
		return Unknown
	}
	return Ago{Since: t.Time}
}

// At is the cell's text, and the time at which it may become another.
func (a Ago) At(now time.Time) (text string, until time.Time) {
	age := now.Sub(a.Since)
	return a.Before + duration.HumanDuration(age) + a.After, a.Since.Add(nextAge(age))
}

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// nextAge is the first age after a given one that HumanDuration may write in another way: it shows less of greater
// ages.
func nextAge(age time.Duration) time.Duration {
	step := year
	switch {
	case age <= -2*time.Second:
		return -2*time.Second + 1
	case age < time.Second:
		return time.Second
	case age < 10*time.Minute:
		step = time.Second
	case age < 8*time.Hour:
		step = time.Minute
	case age < 8*day:
		step = time.Hour
	case age < 8*year:
		step = day
	}
	return age.Truncate(step) + step
}

// At writes what cells say at a time.
func At(cells []any, now time.Time) []any {
	out := make([]any, len(cells))
	for i, cell := range cells {
		if ago, ok := cell.(Ago); ok {
			cell, _ = ago.At(now)
		}
		out[i] = cell
	}
	return out
}
