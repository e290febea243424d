package report

import (
	"fmt"
	"slices"
	"strings"
)

// Result is what a report says of a cluster and a profile, or of all profiles that count.
type Result string

// Results. A cluster is Conformant to a profile when all of its cases ran, none failed, none was Inconclusive, and
// those that it does not support need features that it may lack. It is Unsupported when it lacks a core feature of the
// profile. A run of a part of the cases is Filtered, whatever the outcomes, unless a case failed or was Inconclusive.
const (
	ResultConformant   Result = "conformant"
	ResultFailed       Result = "failed"
	ResultInconclusive Result = "inconclusive"
	ResultFiltered     Result = "filtered"
	ResultUnsupported  Result = "unsupported"
)

// Results lists all results.
func Results() []Result {
	return []Result{ResultConformant, ResultFailed, ResultInconclusive, ResultFiltered, ResultUnsupported}
}

// ProfileSpec is a profile by its name and features, as the suite defines it.
type ProfileSpec struct {
	Name     string
	Core     []string // features that it can't do without
	Extended []string // other features that its cases need
}

// Profile is the result of a profile.
type Profile struct {
	Name   string `json:"name"`
	Result Result `json:"result"`
	Reason string `json:"reason,omitempty"` // why it is not conformant
	// Core counts the cases that need nothing but core features, Extended the others.
	Core     Totals `json:"core"`
	Extended Totals `json:"extended"`
	// MissingCore are core features that were not found in the cluster.
	MissingCore []string `json:"missingCore,omitempty"`
	// Supported and Unsupported are the extended features that the cluster has and lacks.
	Supported   []string `json:"supportedFeatures,omitempty"`
	Unsupported []string `json:"unsupportedFeatures,omitempty"`
}

// Conclude sets the results of profiles from the cases and the features that were found.
func (r *Report) Conclude(profiles []ProfileSpec) {
	r.Profiles = nil
	for _, spec := range profiles {
		r.Profiles = append(r.Profiles, r.conclude(spec))
	}
}

func (r *Report) conclude(spec ProfileSpec) Profile {
	p := Profile{Name: spec.Name, Core: Totals{}, Extended: Totals{}}
	all, lacking := Totals{}, 0
	for _, c := range r.Cases {
		if !slices.Contains(c.Profiles, spec.Name) {
			continue
		}
		all[c.Outcome]++
		if !isSubset(c.Needs, spec.Core) {
			p.Extended[c.Outcome]++
		} else {
			p.Core[c.Outcome]++
		}
		if c.Outcome == NotSupported && lacksAny(c.Needs, spec.Core, r.Suite.Features) {
			lacking++
		}
	}
	for _, feature := range spec.Core {
		if !slices.Contains(r.Suite.Features, feature) {
			p.MissingCore = append(p.MissingCore, feature)
		}
	}
	for _, feature := range spec.Extended {
		if slices.Contains(r.Suite.Features, feature) {
			p.Supported = append(p.Supported, feature)
		} else {
			p.Unsupported = append(p.Unsupported, feature)
		}
	}
	p.Result, p.Reason = result(all, lacking, p.MissingCore)
	return p
}

// result concludes from the outcomes of a profile's cases; lacking counts those that a missing core feature left out.
func result(all Totals, lacking int, missing []string) (Result, string) {
	switch {
	case all[Failed] > 0:
		return ResultFailed, plural(all[Failed], "case") + " failed"
	case lacking > 0:
		return ResultUnsupported, "the cluster has no " + strings.Join(missing, ", ")
	case all[Inconclusive] > 0:
		return ResultInconclusive, plural(all[Inconclusive], "case") + " came to no verdict"
	case all[Skipped] > 0:
		return ResultFiltered, plural(all[Skipped], "case") + " filtered out"
	case all[Passed]+all[Flaky] == 0:
		return ResultInconclusive, "no case ran"
	case all[Flaky] > 0:
		return ResultConformant, plural(all[Flaky], "case") + " passed after a failure only"
	}
	return ResultConformant, ""
}

// share tells how many of the cases that could run passed; "-" where there is none.
func (t Totals) share() string {
	passed := t[Passed] + t[Flaky]
	ran := passed + t[Failed] + t[Inconclusive]
	if ran == 0 {
		return "-"
	}
	return fmt.Sprintf("%d/%d", passed, ran)
}

// isSubset tells whether all needs are among the features.
func isSubset(needs, features []string) bool {
	return !slices.ContainsFunc(needs, func(need string) bool { return !slices.Contains(features, need) })
}

// lacksAny tells whether a need is a core feature that was not found.
func lacksAny(needs, core, found []string) bool {
	return slices.ContainsFunc(needs, func(need string) bool {
		return slices.Contains(core, need) && !slices.Contains(found, need)
	})
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Result is that of the whole report: the worst of its profiles. Where the user claimed none, those that the cluster
// does not support don't count, unless it supports none.
func (r *Report) Result() Result {
	counts := map[Result]int{}
	for _, p := range r.Profiles {
		counts[p.Result]++
	}
	worst := []Result{ResultFailed, ResultInconclusive, ResultUnsupported, ResultFiltered}
	if len(r.Suite.Profiles) == 0 {
		worst = []Result{ResultFailed, ResultInconclusive, ResultFiltered}
	}
	for _, result := range worst {
		if counts[result] > 0 {
			return result
		}
	}
	if counts[ResultConformant] > 0 {
		return ResultConformant
	}
	return ResultUnsupported
}

// Conformant reports whether the cluster conforms to every profile that counts, see Result.
func (r *Report) Conformant() bool { return r.Result() == ResultConformant }
