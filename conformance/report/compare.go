package report

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Comparable returns why the outcomes of two reports can't be held against each other: other cases were run, or in
// another way. It is nil when they can. Clusters and machines may differ: they are what is compared.
func Comparable(a, b *Report) error {
	var errs []error
	differ := func(what, a, b string) {
		if a != b {
			errs = append(errs, fmt.Errorf("%s: %q and %q", what, a, b))
		}
	}
	differ("version of the suite", a.Suite.Version, b.Suite.Version)
	differ("list of cases", a.Suite.Digest, b.Suite.Digest)
	differ("filter", a.Suite.Filter, b.Suite.Filter)
	differ("profiles", fmt.Sprint(a.Suite.Profiles), fmt.Sprint(b.Suite.Profiles))
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("the reports are not comparable: %w", errors.Join(errs...))
}

// TimesComparable returns why the durations of two reports can't be held against each other: the machines differ.
func TimesComparable(a, b *Report) error {
	if a.Machine != b.Machine {
		return fmt.Errorf("the machines differ: %s and %s", a.Machine, b.Machine)
	}
	return nil
}

// String describes the machine in a line.
func (m Machine) String() string {
	return fmt.Sprintf("%s/%s, kernel %s, %d x %s, %.1f GiB", m.OS, m.Arch, cmp.Or(m.Kernel, "unknown"), m.Cores,
		cmp.Or(m.CPU, "unknown CPU"), float64(m.MemoryBytes)/(1<<30))
}

// Change is a case whose outcome differs between two reports. An outcome of "" means that the report lacks the case.
type Change struct {
	ID     string  `json:"id"`
	Before Outcome `json:"before,omitempty"`
	After  Outcome `json:"after,omitempty"`
	Reason string  `json:"reason,omitempty"` // of the outcome After
}

// Worse tells that what held before does not hold, or is not known to hold, after.
func (c Change) Worse() bool {
	return c.After == Failed || c.Before == Passed || c.Before == Flaky && c.After != Passed
}

// Difference is one thing in which the subjects of two reports differ.
type Difference struct {
	What   string `json:"what"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// Comparison is what differs between two reports.
type Comparison struct {
	// NotComparable and TimesNotComparable tell why outcomes and durations can't be held against each other.
	NotComparable      string       `json:"notComparable,omitempty"`
	TimesNotComparable string       `json:"timesNotComparable,omitempty"`
	Subjects           []Difference `json:"subjects,omitempty"` // versions, images and machines
	Profiles           []Difference `json:"profiles,omitempty"` // results
	Changes            []Change     `json:"changes,omitempty"`  // outcomes, by identifier
}

// Worse tells whether any outcome is worse.
func (c *Comparison) Worse() bool { return slices.ContainsFunc(c.Changes, Change.Worse) }

// Compare lists what differs from before to after.
func Compare(before, after *Report) *Comparison {
	c := &Comparison{Changes: changes(before, after)}
	if err := Comparable(before, after); err != nil {
		c.NotComparable = err.Error()
	}
	if err := TimesComparable(before, after); err != nil {
		c.TimesNotComparable = err.Error()
	}
	c.Subjects = differences(before.subject(), after.subject())
	c.Profiles = differences(before.results(), after.results())
	return c
}

func changes(before, after *Report) []Change {
	outcomes := map[string]Change{}
	for _, c := range before.Cases {
		outcomes[c.ID] = Change{ID: c.ID, Before: c.Outcome}
	}
	for _, c := range after.Cases {
		change := outcomes[c.ID]
		change.ID, change.After, change.Reason = c.ID, c.Outcome, c.Reason
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

// subject describes what was tested, and where, by name.
func (r *Report) subject() map[string]string {
	about := map[string]string{
		"kube-apiserver": r.Cluster.Version + " " + r.Cluster.Commit,
		"machine":        r.Machine.String(),
		"nodes":          fmt.Sprint(len(r.Cluster.Nodes)),
		"features":       fmt.Sprint(r.Suite.Features),
	}
	for _, n := range r.Cluster.Nodes {
		about["node "+n.Name] = fmt.Sprintf("kubelet %s, %s, %s, kernel %s", n.Kubelet, n.Runtime, n.OS, n.Kernel)
	}
	for _, i := range r.Cluster.Images {
		about["image of "+i.Container] = cmp.Or(i.ID, i.Image)
	}
	return about
}

func (r *Report) results() map[string]string {
	results := map[string]string{}
	for _, p := range r.Profiles {
		results[p.Name] = string(p.Result)
	}
	return results
}

func differences(before, after map[string]string) []Difference {
	var out []Difference
	for what, b := range before {
		if a := after[what]; a != b {
			out = append(out, Difference{what, b, a})
		}
	}
	for what, a := range after {
		if _, ok := before[what]; !ok {
			out = append(out, Difference{what, "", a})
		}
	}
	slices.SortFunc(out, func(a, b Difference) int { return cmp.Compare(a.What, b.What) })
	return out
}
