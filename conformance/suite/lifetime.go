package suite

import (
	"context"
	"fmt"
)

// providers are the components without which a cluster does not have a feature.
var providers = map[Feature]Component{HasScheduler: Scheduler, HasControllers: Controllers}

// ended is why a component has ended; nil while it has not, and where that is not known.
func (c *Cluster) ended(component Component) error {
	lifetime := c.Lifetimes[component]
	if lifetime == nil || lifetime.Err() == nil {
		return nil
	}
	return fmt.Errorf("%s has ended: %w", component, context.Cause(lifetime))
}

// endedFor is why a component has ended that a case tests or needs; nil if none has.
func (c *Cluster) endedFor(test *Case) error {
	for _, component := range test.components() {
		if reason := c.ended(component); reason != nil {
			return reason
		}
	}
	return nil
}

// onEnded calls f once a component ends that a case tests or needs, until stop is called.
func (c *Cluster) onEnded(test *Case, f func()) (stop func()) {
	var stops []func() bool
	for _, component := range test.components() {
		if lifetime := c.Lifetimes[component]; lifetime != nil {
			stops = append(stops, context.AfterFunc(lifetime, f))
		}
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// components are those that the case tests or needs.
func (c *Case) components() []Component {
	out := []Component{c.Component}
	for _, need := range c.Needs {
		if provider, ok := providers[need]; ok {
			out = append(out, provider)
		}
	}
	return out
}
