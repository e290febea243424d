// Package report is the result of a conformance run: one versioned type, from which every other form is derived.
package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"quintet.dev/quintet/conformance/score"
)

// APIVersion and Kind identify the type; fields are only ever added within a version.
const (
	APIVersion = "conformance.quintet.dev/v1"
	Kind       = "ConformanceReport"
)

// Outcome of one case.
type Outcome string

// Outcomes. A case that was not asked for is Skipped; one that needs a feature which the cluster does not declare is
// NotSupported; one without a verdict, because the suite itself or its connection broke, is Faulty.
const (
	Passed       Outcome = "Passed"
	Failed       Outcome = "Failed"
	Skipped      Outcome = "Skipped"
	NotSupported Outcome = "NotSupported"
	Faulty       Outcome = "Faulty"
)

// Outcomes lists all outcomes in the order in which reports show them.
func Outcomes() []Outcome { return []Outcome{Passed, Failed, Faulty, NotSupported, Skipped} }

// Report is the result of one run of the suite against one cluster.
type Report struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Suite      Suite     `json:"suite"`
	Cluster    Cluster   `json:"cluster"`
	Started    time.Time `json:"started"`
	Seconds    float64   `json:"seconds"`
	Cases      []Case    `json:"cases"`
}

// Suite tells what was run.
type Suite struct {
	Version  string   `json:"version"`
	Features []string `json:"features"`         // declared or found in the cluster
	Filter   string   `json:"filter,omitempty"` // as given by the user
}

// Cluster tells what it was run against.
type Cluster struct {
	Name    string `json:"name"`
	Server  string `json:"server"`
	Version string `json:"version"` // gitVersion of /version
	Nodes   []Node `json:"nodes,omitempty"`
}

// Node is one node of the cluster.
type Node struct {
	Name    string `json:"name"`
	Kubelet string `json:"kubelet"`
	Runtime string `json:"runtime"`
	OS      string `json:"os"`
}

// Case is one case with its specification and result.
type Case struct {
	ID          string          `json:"id"`
	Component   string          `json:"component"`
	Requirement string          `json:"requirement"`
	Reference   string          `json:"reference"`
	Needs       []string        `json:"needs,omitempty"`
	Since       string          `json:"since"`
	Outcome     Outcome         `json:"outcome"`
	Reason      string          `json:"reason,omitempty"` // why it is not Passed
	Seconds     float64         `json:"seconds"`
	Score       *score.Timeline `json:"score,omitempty"`
}

// Totals counts cases by outcome.
type Totals map[Outcome]int

// Totals of the whole report.
func (r *Report) Totals() Totals { return count(r.Cases) }

// Component is the part of a report about one component.
type Component struct {
	Name   string
	Cases  []Case
	Totals Totals
}

// Components groups the cases in the order in which components first appear.
func (r *Report) Components() []Component {
	var out []Component
	for _, c := range r.Cases {
		i := slices.IndexFunc(out, func(o Component) bool { return o.Name == c.Component })
		if i < 0 {
			out = append(out, Component{Name: c.Component})
			i = len(out) - 1
		}
		out[i].Cases = append(out[i].Cases, c)
	}
	for i := range out {
		out[i].Totals = count(out[i].Cases)
	}
	return out
}

// Conformant reports whether every case with a verdict passed, and at least one was.
func (r *Report) Conformant() bool {
	t := r.Totals()
	return t[Passed] > 0 && t[Failed] == 0 && t[Faulty] == 0
}

func count(cases []Case) Totals {
	t := Totals{}
	for _, c := range cases {
		t[c.Outcome]++
	}
	return t
}

// WriteJSON writes the report itself.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// Read reads a report; another version is an error.
func Read(in io.Reader) (*Report, error) {
	var r Report
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	if r.APIVersion != APIVersion || r.Kind != Kind {
		return nil, fmt.Errorf("report: want %s %s, got %q %q", APIVersion, Kind, r.APIVersion, r.Kind)
	}
	return &r, nil
}

// Change is a case whose outcome differs between two reports. An outcome of "" means that the report lacks the case.
type Change struct {
	ID            string
	Before, After Outcome
}

// Compare lists the cases whose outcome changed from before to after, by identifier.
func Compare(before, after *Report) []Change {
	outcomes := map[string]Change{}
	for _, c := range before.Cases {
		outcomes[c.ID] = Change{ID: c.ID, Before: c.Outcome}
	}
	for _, c := range after.Cases {
		change := outcomes[c.ID]
		change.ID, change.After = c.ID, c.Outcome
		outcomes[c.ID] = change
	}
	var changes []Change
	for _, c := range outcomes {
		if c.Before != c.After {
			changes = append(changes, c)
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return cmp.Compare(a.ID, b.ID) })
	return changes
}
