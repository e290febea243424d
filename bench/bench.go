// Package bench measures how fast the components are, each against a limit taken in the same run on the same machine:
// raw etcd for writes and lists, a bare `docker run` for pods. Numbers alone mean little on an unknown machine; ratios
// do.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Options of a run.
type Options struct {
	// Bin is the folder with the programs (etcd, kube-apiserver).
	Bin string
	// CompareWith are other programs, such as another release's or another project's, by the name of the component
	// whose sections are measured with them, too; those of Comparable.
	CompareWith map[string]string
	// Clients work at once, each with a connection of its own.
	Clients int
	// Duration bounds each load.
	Duration time.Duration
	// Pods is the number of pods that lists return.
	Pods int
	// Nodes is the size of the largest cluster of hollow nodes; 0 goes by the machine's memory.
	Nodes int
	// PodsPerNode run on each of those.
	PodsPerNode int
	// From and Until are the first and the last fraction of those nodes that are measured: 1/8, 1/4, 1/2 or whole; "" is
	// 1/8 and whole.
	From, Until string
	// Profiles is a folder that CPU profiles of clusters of hollow nodes and of schedulers are written into; "" is none.
	Profiles string
	// Only picks sections by name; nil picks all.
	Only *regexp.Regexp
	// Progress gets a line per section.
	Progress io.Writer

	instead map[string]string // the programs of CompareWith that are measured now
}

// program is the file of a program: that of Bin, unless another one is measured.
func (o Options) program(name string) string {
	if file, ok := o.instead[name]; ok {
		return file
	}
	return filepath.Join(o.Bin, name)
}

// frequency is the unit of what is better the more it is.
const frequency = "1/s"

// Measure is one number and, where there is one, the limit that it is held against.
type Measure struct {
	Section string  `json:"section"`
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	// Limit was measured in the same run; 0 when there is none. Against says what it is.
	Limit   float64 `json:"limit,omitempty"`
	Against string  `json:"against,omitempty"`
	// Beside is what the other program took, with the same others; 0 when there is none.
	Beside float64 `json:"beside,omitempty"`
	// More is better, as it is of all that is counted per second.
	More bool `json:"more,omitempty"`
	// Aim is what the project wants to reach on a machine with two cores, also as a ratio where machines differ; "" for
	// none.
	Aim string `json:"aim,omitempty"`
}

// Ratio of the value to its limit; 0 when there is no limit.
func (m Measure) Ratio() float64 {
	if m.Limit == 0 {
		return 0
	}
	return m.Value / m.Limit
}

// Ahead is how many times as good the value is as what the other program took: less is better, unless more is. 0 when
// there is no other.
func (m Measure) Ahead() float64 {
	switch {
	case m.Beside == 0 || m.Value == 0:
		return 0
	case m.More || m.Unit == frequency:
		return m.Value / m.Beside
	}
	return m.Beside / m.Value
}

// section measures one thing. It cleans up after itself.
type section struct {
	name string
	run  func(ctx context.Context, o Options) ([]Measure, error)
	// of is the component whose program the section measures, where any does that has upstream's flags; "" for others.
	of string
}

// Components that other programs can be measured of.
const (
	apiServerProgram = "kube-apiserver"
	schedulerProgram = "kube-scheduler"

	controllersProgram = "kube-controller-manager"
)

// Comparable are the components that CompareWith knows.
func Comparable() []string { return []string{apiServerProgram, schedulerProgram, controllersProgram} }

func sections() []section {
	all := []section{
		{name: "memory-server", run: memoryServer},
		{name: "api", run: api, of: apiServerProgram},
		{name: "crowd", run: crowd, of: apiServerProgram},
		{name: "three-servers", run: several, of: apiServerProgram},
		{name: "record", run: record, of: apiServerProgram},
		{name: "controllers", run: deploying, of: controllersProgram},
		{name: "in-process", run: inProcess},
		{name: "scale", run: scaleInMemory},
		{name: "scale-etcd", run: scaleOnEtcd},
		{name: "volumes", run: volumeClaims},
		{name: "claims", run: deviceClaims},
		{name: "cluster", run: containers},
		{name: "node", run: node},
		{name: "network", run: network},
		{name: "kube-proxy", run: proxyTables},
		{name: "network-policy", run: policyTables},
	}
	for _, w := range workloads() {
		all = append(all, section{name: "scheduler-" + w.name, of: schedulerProgram,
			run: func(ctx context.Context, o Options) ([]Measure, error) { return o.schedule(ctx, w) }})
	}
	return all
}

// Run measures the sections that were asked for, one after another, so that none disturbs another. One that fails keeps
// neither the others from being measured nor them from being returned, beside the error.
func Run(ctx context.Context, o Options) ([]Measure, error) { return run(ctx, o, sections()) }

func run(ctx context.Context, o Options, sections []section) ([]Measure, error) {
	if o.Only != nil && !slices.ContainsFunc(sections, func(s section) bool { return o.Only.MatchString(s.name) }) {
		return nil, fmt.Errorf("only %q: no section has such a name; there are %s", o.Only, namesOf(sections))
	}
	var all []Measure
	var failed []error
	for _, s := range sections {
		if o.Only != nil && !o.Only.MatchString(s.name) || ctx.Err() != nil {
			continue
		}
		if o.Progress != nil {
			fmt.Fprintf(o.Progress, "measuring %s\n", s.name)
		}
		measures, err := s.measure(ctx, o)
		if err != nil {
			failed = append(failed, fmt.Errorf("bench %s: %w", s.name, err))
		}
		all = append(all, measures...)
	}
	return all, errors.Join(append(failed, ctx.Err())...)
}

func namesOf(sections []section) string {
	var out []string
	for _, s := range sections {
		out = append(out, s.name)
	}
	return strings.Join(out, ", ")
}

// measure returns what the section measured, also beside an error of the other program.
func (s section) measure(ctx context.Context, o Options) ([]Measure, error) {
	measures, err := s.run(ctx, o)
	if err != nil {
		return nil, err
	}
	for i := range measures {
		measures[i].Section = s.name
	}
	other := o.CompareWith[s.of]
	if other == "" {
		return measures, nil
	}
	if o.Progress != nil {
		fmt.Fprintf(o.Progress, "measuring %s of %s\n", s.name, other)
	}
	o.instead = map[string]string{s.of: other}
	others, err := s.run(ctx, o)
	if err != nil {
		return measures, fmt.Errorf("%s: %w", other, err)
	}
	for i := range measures {
		if same := slices.IndexFunc(others, func(m Measure) bool { return m.Name == measures[i].Name }); same >= 0 {
			measures[i].Beside = others[same].Value
		}
	}
	return measures, nil
}

// Write prints the measures as a table for people.
func Write(w io.Writer, measures []Measure) error {
	compared := slices.ContainsFunc(measures, func(m Measure) bool { return m.Beside != 0 })
	beside := func(value, times string) string {
		if !compared {
			return ""
		}
		return fmt.Sprintf("%12s %8s  ", value, times)
	}
	format := "%-23s %-38s %12s %-8s %s%8s  %-40s %s\n"
	if _, err := fmt.Fprintf(w, format, "SECTION", "MEASURE", "VALUE", "UNIT", beside("BESIDE", "AHEAD"), "RATIO",
		"AGAINST", "AIM"); err != nil {
		return err
	}
	for _, m := range measures {
		ratio, against, value, times := "", "", "", ""
		if m.Limit != 0 {
			ratio = fmt.Sprintf("%.2f", m.Ratio())
			against = fmt.Sprintf("%s: %s", m.Against, number(m.Limit))
		}
		if m.Beside != 0 {
			value, times = number(m.Beside), number(m.Ahead())+"x"
		}
		if _, err := fmt.Fprintf(w, format, m.Section, m.Name, number(m.Value), m.Unit, beside(value, times), ratio, against,
			m.Aim); err != nil {
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
