package bench

import (
	"context"
	"errors"
	"testing"
)

// TestRunGoesOn: what was measured is told, whatever else fails.
func TestRunGoesOn(t *testing.T) {
	broken := errors.New("no image")
	ctx, cancel := context.WithCancel(t.Context())
	one := func(context.Context, Options) ([]Measure, error) { return []Measure{{Name: "time"}}, nil }
	all := []section{
		{"first", one},
		{"second", func(context.Context, Options) ([]Measure, error) { return nil, broken }},
		{"third", one},
		{"fourth", func(context.Context, Options) ([]Measure, error) { cancel(); return nil, ctx.Err() }},
		{"fifth", one},
	}
	measures, err := run(ctx, Options{}, all)
	if !errors.Is(err, broken) || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if len(measures) != 2 || measures[0].Section != "first" || measures[1].Section != "third" {
		t.Errorf("measures %+v", measures)
	}
}
