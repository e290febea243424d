package cycle

import "time"

// The extension points as metrics name them
// (https://kubernetes.io/docs/concepts/scheduling-eviction/scheduling-framework/).
const (
	PreFilterPoint  = "PreFilter"
	FilterPoint     = "Filter"
	PostFilterPoint = "PostFilter"
	PreScorePoint   = "PreScore"
	ScorePoint      = "Score"
)

// The results of plug-ins as metrics name them.
const (
	Success       = "Success"
	Skip          = "Skip"
	Failure       = "Error"
	Unschedulable = "Unschedulable"
	Unresolvable  = "UnschedulableAndUnresolvable"
)

// Observer measures plug-ins. It is safe for concurrent use.
type Observer interface {
	Now() time.Time
	// Point tells that the plug-ins of an extension point have run since a time.
	Point(point, status string, began time.Time)
	// Plugin tells that one plug-in has run at an extension point.
	Plugin(plugin, point, status string, began time.Time)
	// Evaluated counts how often a plug-in had something to say about the pod, or about a node for it.
	Evaluated(plugin, point string, times int)
}

// measures tell an observer what one decision took. The zero value measures nothing.
type measures struct {
	observer Observer
	plugins  bool // each plug-in, which costs more than extension points do
}

func (m measures) begin() time.Time {
	if m.observer == nil {
		return time.Time{}
	}
	return m.observer.Now()
}

func (m measures) point(point, status string, began time.Time) {
	if m.observer != nil {
		m.observer.Point(point, status, began)
	}
}

func (m measures) beginPlugin() time.Time {
	if !m.plugins {
		return time.Time{}
	}
	return m.begin()
}

func (m measures) plugin(plugin, point, status string, began time.Time) {
	if m.plugins && m.observer != nil {
		m.observer.Plugin(plugin, point, status, began)
	}
}

func (m measures) evaluated(plugin, point string, times int) {
	if m.observer != nil && times > 0 {
		m.observer.Evaluated(plugin, point, times)
	}
}

// status is the result of a filter; nil is success.
func (r *Refusal) status() string {
	switch {
	case r == nil:
		return Success
	case r.Err != nil:
		return Failure
	case r.Unresolvable:
		return Unresolvable
	}
	return Unschedulable
}

func (r *PostFilterResult) status() string {
	if r.Node != "" {
		return Success
	}
	return Unschedulable
}
