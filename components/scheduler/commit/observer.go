package commit

import (
	"time"

	"quintet.dev/quintet/components/scheduler/cycle"
)

// Observer measures plug-ins. It is safe for concurrent use.
type Observer interface {
	cycle.Observer
	// Waited tells that a pod has waited for permission since a time.
	Waited(status string, began time.Time)
}

// label is the result as metrics name it; nil is success.
func (s *Status) label() string {
	switch {
	case s == nil:
		return cycle.Success
	case s.Err != nil:
		return cycle.Failure
	case s.Unresolvable:
		return cycle.Unresolvable
	}
	return cycle.Unschedulable
}

// at runs the plug-ins of an extension point, and measures it.
func (f *Profile) at(point string, run func() *Status) *Status {
	if f.Observer == nil {
		return run()
	}
	began := f.Observer.Now()
	status := run()
	f.Observer.Point(point, status.label(), began)
	return status
}

// ask runs one plug-in, and measures it if its pod is one of those that are measured. It names the plug-in in the
// status.
func (f *Profile) ask(p *Placement, point, plugin string, run func() *Status) *Status {
	if f.Observer == nil || !p.Measure {
		return named(run(), point, plugin)
	}
	began := f.Observer.Now()
	status := run()
	f.Observer.Plugin(plugin, point, status.label(), began)
	return named(status, point, plugin)
}
