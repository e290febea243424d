// Package bench measures how fast the players are, each against a limit taken in the same run on the same machine: raw etcd
// for writes and lists, a bare `docker run` for pods. Numbers alone mean little on a machine that nobody knows; ratios do.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"
)

// Options of a run.
type Options struct {
	// Bin is the folder with the programs (etcd, kube-apiserver).
	Bin string
	// Clients work at once, each with a connection of its own.
	Clients int
	// Duration bounds each load.
	Duration time.Duration
	// Pods is the number of pods that lists return.
	Pods int
	// Only picks sections by name; nil picks all.
	Only *regexp.Regexp
	// Progress gets a line per section.
	Progress io.Writer
}

// Measure is one number and, where there is one, the limit that it is held against.
type Measure struct {
	Section string  `json:"section"`
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	// Limit was measured in the same run; 0 when there is none. Against says what it is.
	Limit   float64 `json:"limit,omitempty"`
	Against string  `json:"against,omitempty"`
	// Aim is what the project wants to reach on a machine with two cores, also as a ratio where machines differ; "" for none.
	Aim string `json:"aim,omitempty"`
}

// Ratio of the value to its limit; 0 when there is no limit.
func (m Measure) Ratio() float64 {
	if m.Limit == 0 {
		return 0
	}
	return m.Value / m.Limit
}

// section measures one thing. It cleans up after itself.
type section struct {
	name string
	run  func(ctx context.Context, o Options) ([]Measure, error)
}

func sections() []section {
	return []section{
		{"memory-server", memoryServer},
		{"api", api},
		{"crowd", crowd},
		{"three-servers", several},
		{"in-process", inProcess},
		{"cluster", containers},
	}
}

// Run measures the sections that were asked for, one after another, so that none disturbs another. One that fails keeps neither
// the others from being measured nor them from being returned, beside the error.
func Run(ctx context.Context, o Options) ([]Measure, error) { return run(ctx, o, sections()) }

func run(ctx context.Context, o Options, sections []section) ([]Measure, error) {
	var all []Measure
	var failed []error
	for _, s := range sections {
		if o.Only != nil && !o.Only.MatchString(s.name) || ctx.Err() != nil {
			continue
		}
		if o.Progress != nil {
			fmt.Fprintf(o.Progress, "measuring %s\n", s.name)
		}
		measures, err := s.run(ctx, o)
		if err != nil {
			failed = append(failed, fmt.Errorf("bench %s: %w", s.name, err))
			continue
		}
		for i := range measures {
			measures[i].Section = s.name
		}
		all = append(all, measures...)
	}
	return all, errors.Join(append(failed, ctx.Err())...)
}

// Write prints the measures as a table for people.
func Write(w io.Writer, measures []Measure) error {
	format := "%-14s %-38s %12s %-8s %8s  %-34s %s\n"
	if _, err := fmt.Fprintf(w, format, "SECTION", "MEASURE", "VALUE", "UNIT", "RATIO", "AGAINST", "AIM"); err != nil {
		return err
	}
	for _, m := range measures {
		ratio, against := "", ""
		if m.Limit != 0 {
			ratio = fmt.Sprintf("%.2f", m.Ratio())
			against = fmt.Sprintf("%s: %s", m.Against, number(m.Limit))
		}
		if _, err := fmt.Fprintf(w, format, m.Section, m.Name, number(m.Value), m.Unit, ratio, against, m.Aim); err != nil {
			return err
		}
	}
	return nil
}

func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
