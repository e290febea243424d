// Package matrix is the result of running the suite on several clusters that differ in a component each: whose
// component breaks whose case.
package matrix

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"quintet.dev/quintet/conformance/report"
)

// APIVersion and Kind identify the type; fields are only ever added within a version.
const (
	APIVersion = "conformance.quintet.dev/v2"
	Kind       = "SwapMatrix"
)

// Base is the name of the cell in which nothing is swapped.
const Base = "base"

// Swap puts something else in the place of a component.
type Swap struct {
	Component string `json:"component"`
	With      string `json:"with"` // as the user named it: an image, or a program file
}

// Plan is a cell before it ran.
type Plan struct {
	Name  string
	Swaps []Swap
}

// Extra are cells besides the base and one for each swap.
type Extra struct {
	Pairs    bool // each two swaps of different components
	Together bool // all swaps, of which no two may be of one component
}

// Plans lists the cells to run, the base first.
func Plans(swaps []Swap, extra Extra) ([]Plan, error) {
	plans := []Plan{{Name: Base}}
	for i, swap := range swaps {
		if slices.Contains(swaps[:i], swap) {
			return nil, fmt.Errorf("swap %s=%s: given twice", swap.Component, swap.With)
		}
		plans = append(plans, plan(swap))
	}
	if extra.Pairs {
		for i, first := range swaps {
			for _, second := range swaps[i+1:] {
				if first.Component != second.Component {
					plans = append(plans, plan(first, second))
				}
			}
		}
	}
	if !extra.Together || len(swaps) < 2 || extra.Pairs && len(swaps) == 2 {
		return plans, nil
	}
	for i, swap := range swaps {
		if slices.ContainsFunc(swaps[:i], func(s Swap) bool { return s.Component == swap.Component }) {
			return nil, fmt.Errorf("all swaps together: there are several of %s", swap.Component)
		}
	}
	return append(plans, plan(swaps...)), nil
}

// plan names a cell after its swaps.
func plan(swaps ...Swap) Plan {
	names := make([]string, len(swaps))
	for i, swap := range swaps {
		names[i] = swap.Component + "=" + swap.With
	}
	return Plan{Name: strings.Join(names, " + "), Swaps: slices.Clone(swaps)}
}

// Run is what a cell came to.
type Run struct {
	Plan
	// Report is nil if there is none, and Reason then tells why. With a report, Reason tells what was not right with the
	// cluster when the suite began.
	Report  *report.Report
	Reason  string
	Dir     string // of its report and log, relative to the matrix's
	Seconds float64
}

// Matrix is the outcome of every case in every cell.
type Matrix struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Suite      report.Suite   `json:"suite"`
	Machine    report.Machine `json:"machine"`
	Started    time.Time      `json:"started"`
	Seconds    float64        `json:"seconds"`
	Cells      []Cell         `json:"cells"`
	Cases      []Case         `json:"cases"`
}

// Cell is a column of the matrix.
type Cell struct {
	Name    string          `json:"name"`
	Swaps   []Swap          `json:"swaps,omitempty"`
	Result  report.Result   `json:"result"`
	Reason  string          `json:"reason,omitempty"`
	Dir     string          `json:"dir,omitempty"`
	Seconds float64         `json:"seconds"`
	Cluster *report.Cluster `json:"cluster,omitempty"`
	Broken  []BrokenCases   `json:"broken,omitempty"` // by the component that the cases test
	Totals  report.Totals   `json:"totals"`
}

// BrokenCases are cases of one component that hold in the base and not in a cell.
type BrokenCases struct {
	Component string   `json:"component"`
	Cases     []string `json:"cases"`
}

// Case is a row of the matrix.
type Case struct {
	ID          string   `json:"id"`
	Component   string   `json:"component"`
	Requirement string   `json:"requirement"`
	Reference   string   `json:"reference"`
	Results     []Result `json:"results"` // by cell
}

// Result is the outcome of a case in a cell.
type Result struct {
	Outcome report.Outcome `json:"outcome"`
	Reason  string         `json:"reason,omitempty"`
}

// Good tells whether the requirement held.
func (r Result) Good() bool { return r.Outcome == report.Passed || r.Outcome == report.Flaky }

// Differs tells whether the case came out differently in any two cells.
func (c Case) Differs() bool {
	return slices.ContainsFunc(c.Results, func(r Result) bool { return r.Outcome != c.Results[0].Outcome })
}

// Breaks tells whether the case holds in the base and not in a cell. Where it came to no verdict, that is not known.
func (c Case) Breaks(cell int) bool {
	outcome := c.Results[cell].Outcome
	return c.Results[0].Good() && (outcome == report.Failed || outcome == report.NotSupported)
}

// New makes a matrix of what cells came to; the first is the base. A cell without a report is Inconclusive in all
// cases.
func New(runs []Run) *Matrix {
	m := &Matrix{APIVersion: APIVersion, Kind: Kind}
	for _, run := range runs {
		if run.Report == nil {
			continue
		}
		if m.Cases == nil {
			m.Suite, m.Machine = run.Report.Suite, run.Report.Machine
		}
		m.addCases(run.Report)
	}
	for i, run := range runs {
		m.addCell(i, run)
	}
	return m
}

// addCases adds the cases of a report that were run and that are not there yet.
func (m *Matrix) addCases(r *report.Report) {
	for _, c := range r.Cases {
		if c.Outcome != report.Skipped && !slices.ContainsFunc(m.Cases, func(o Case) bool { return o.ID == c.ID }) {
			m.Cases = append(m.Cases,
				Case{ID: c.ID, Component: c.Component, Requirement: c.Requirement, Reference: c.Reference})
		}
	}
}

func (m *Matrix) addCell(at int, run Run) {
	cell := Cell{Name: run.Name, Swaps: run.Swaps, Result: report.ResultInconclusive, Reason: run.Reason, Dir: run.Dir,
		Seconds: run.Seconds, Totals: report.Totals{}}
	if run.Report != nil {
		cell.Result, cell.Cluster = run.Report.Result(), &run.Report.Cluster
	}
	for i := range m.Cases {
		c := &m.Cases[i]
		result := run.result(c.ID)
		c.Results = append(c.Results, result)
		cell.Totals[result.Outcome]++
		if !c.Breaks(at) {
			continue
		}
		if last := len(cell.Broken) - 1; last >= 0 && cell.Broken[last].Component == c.Component {
			cell.Broken[last].Cases = append(cell.Broken[last].Cases, c.ID)
		} else {
			cell.Broken = append(cell.Broken, BrokenCases{c.Component, []string{c.ID}})
		}
	}
	m.Cells = append(m.Cells, cell)
}

func (r Run) result(id string) Result {
	if r.Report == nil {
		return Result{report.Inconclusive, r.Reason}
	}
	at := slices.IndexFunc(r.Report.Cases, func(c report.Case) bool { return c.ID == id })
	if at < 0 {
		return Result{report.Inconclusive, "the cell's suite has no such case"}
	}
	return Result{r.Report.Cases[at].Outcome, r.Report.Cases[at].Reason}
}

// Result of the whole matrix: failed if a swap breaks a case, inconclusive if a cell came to no verdict; else the
// base's.
func (m *Matrix) Result() report.Result {
	for _, want := range []report.Result{report.ResultFailed, report.ResultInconclusive} {
		if slices.ContainsFunc(m.Cells, func(c Cell) bool { return c.Result == want }) {
			return want
		}
	}
	if slices.ContainsFunc(m.Cells, func(c Cell) bool { return len(c.Broken) > 0 }) {
		return report.ResultFailed // a feature that the base has is missing
	}
	return m.Cells[0].Result
}

// WriteJSON writes the matrix itself.
func (m *Matrix) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(m)
}
