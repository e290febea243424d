// Package report is the result of a conformance run: one versioned type, from which every other form is derived.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"quintet.dev/quintet/conformance/score"
)

// APIVersion and Kind identify the type; fields are only ever added within a version.
const (
	APIVersion = "conformance.quintet.dev/v2"
	Kind       = "ConformanceReport"
)

// Outcome of one case.
type Outcome string

// Outcomes. A case that was filtered out is Skipped; one that needs a feature which the cluster lacks is NotSupported;
// one of which no run came to a verdict (its setup could not be made, the run was ended, the cluster was lost) is
// Inconclusive. Flaky is one that failed and passed in a later attempt.
const (
	Passed       Outcome = "Passed"
	Flaky        Outcome = "Flaky"
	Failed       Outcome = "Failed"
	Inconclusive Outcome = "Inconclusive"
	NotSupported Outcome = "NotSupported"
	Skipped      Outcome = "Skipped"
)

// Outcomes lists all outcomes in the order in which reports show them.
func Outcomes() []Outcome {
	return []Outcome{Passed, Flaky, Failed, Inconclusive, NotSupported, Skipped}
}

// Report is the result of one run of the suite against one cluster.
type Report struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Suite      Suite     `json:"suite"`
	Cluster    Cluster   `json:"cluster"`
	Machine    Machine   `json:"machine"` // on which the suite ran
	Started    time.Time `json:"started"`
	Seconds    float64   `json:"seconds"` // of all attempts together
	Profiles   []Profile `json:"profiles"`
	Cases      []Case    `json:"cases"`
}

// Suite tells what was run.
type Suite struct {
	Version string `json:"version"`
	// Digest identifies the list of cases: their identifiers, requirements, needs and profiles.
	Digest   string   `json:"digest"`
	Image    string   `json:"image"`              // the test image, as nodes name it
	Features []string `json:"features"`           // declared, or found in the cluster
	Profiles []string `json:"profiles,omitempty"` // that the cluster claims; none: those whose core it has
	Filter   string   `json:"filter,omitempty"`   // as given by the user
}

// Cluster tells what it was run against.
type Cluster struct {
	Name     string `json:"name"`
	Server   string `json:"server"`
	Version  string `json:"version"` // gitVersion of /version
	Commit   string `json:"commit,omitempty"`
	Platform string `json:"platform,omitempty"`
	Nodes    []Node `json:"nodes,omitempty"`
	// Images are those of the pods in kube-system, sorted.
	Images []Image `json:"images,omitempty"`
}

// Node is one node of the cluster.
type Node struct {
	Name    string `json:"name"`
	Kubelet string `json:"kubelet"`
	Runtime string `json:"runtime"`
	OS      string `json:"os"`
	Kernel  string `json:"kernel,omitempty"`
	Arch    string `json:"arch,omitempty"`
	CPU     string `json:"cpu,omitempty"`    // its capacity
	Memory  string `json:"memory,omitempty"` // its capacity
}

// Image is what a container of the cluster's own runs from.
type Image struct {
	Container string `json:"container"`
	Image     string `json:"image"`
	ID        string `json:"id,omitempty"`
}

// Machine is the one that the suite ran on. What could not be found out is empty.
type Machine struct {
	OS          string `json:"os"`
	Arch        string `json:"arch"`
	Kernel      string `json:"kernel,omitempty"`
	CPU         string `json:"cpu,omitempty"` // the model
	Cores       int    `json:"cores"`
	MemoryBytes int64  `json:"memoryBytes,omitempty"`
}

// Case is one case with its specification and result.
type Case struct {
	ID          string          `json:"id"`
	Component   string          `json:"component"`
	Profiles    []string        `json:"profiles,omitempty"` // the narrowest first
	Requirement string          `json:"requirement"`
	Reference   string          `json:"reference"`
	Needs       []string        `json:"needs,omitempty"`
	Since       string          `json:"since"`
	Outcome     Outcome         `json:"outcome"`
	Reason      string          `json:"reason,omitempty"` // why it is not Passed, or passed late
	Seconds     float64         `json:"seconds"`          // of the last attempt
	Score       *score.Timeline `json:"score,omitempty"`
	// Attempts are all attempts, oldest first, of a case that was run again.
	Attempts []Attempt `json:"attempts,omitempty"`
}

// Attempt is one run of a case.
type Attempt struct {
	Outcome Outcome `json:"outcome"`
	Reason  string  `json:"reason,omitempty"`
	Seconds float64 `json:"seconds"`
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
