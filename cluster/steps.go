package cluster

import (
	"context"
	"fmt"
	"time"
)

// Event is one piece of progress: a step that began, or ended.
type Event struct {
	Step string
	// Done is false when the step begins.
	Done bool
	// Took is the step's duration when it is done.
	Took time.Duration
	// Err is why the step failed.
	Err error
	// Notice is something to know that is not a step; the other fields are then empty.
	Notice string
}

// step is one named part of a long operation.
type step struct {
	name string
	run  func(ctx context.Context) error
}

// perform runs steps in order, up to the first error, which it names.
func perform(ctx context.Context, report func(Event), steps []step) error {
	for _, s := range steps {
		report(Event{Step: s.name})
		began := time.Now()
		err := s.run(ctx)
		report(Event{Step: s.name, Done: true, Took: time.Since(began), Err: err})
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}
