package conformance

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"quintet.dev/quintet/conformance/report"
	"quintet.dev/quintet/conformance/suite"
)

// choice is which cases run, and what they are concluded to.
type choice struct {
	profiles []suite.Profile // that the cluster claims
	filter   string
	// skip tells why a case is left out; "" runs it.
	skip func(*suite.Case) string
}

// Choose returns those of the cases that the options ask for.
func Choose(o Options, all []suite.Case) ([]suite.Case, error) {
	choice, err := choose(o, all)
	if err != nil {
		return nil, err
	}
	var chosen []suite.Case
	for _, c := range all {
		if choice.skip(&c) == "" {
			chosen = append(chosen, c)
		}
	}
	return chosen, nil
}

// choose makes the choice that the options ask for.
func choose(o Options, all []suite.Case) (choice, error) {
	if o.Rerun != nil {
		return chooseAgain(o)
	}
	for _, p := range o.Profiles {
		if !slices.Contains(suite.Profiles(), p) {
			return choice{}, fmt.Errorf("unknown profile %q; there are %v", p, suite.Profiles())
		}
	}
	filter, err := regexp.Compile(o.Filter)
	if err != nil {
		return choice{}, fmt.Errorf("filter: %w", err)
	}
	if !slices.ContainsFunc(all, func(c suite.Case) bool { return filter.MatchString(c.ID) }) {
		return choice{}, fmt.Errorf("filter %q: no case has such an identifier; see the list of cases", o.Filter)
	}
	return choice{profiles: o.Profiles, filter: o.Filter, skip: func(c *suite.Case) string {
		in := func(p suite.Profile) bool { return slices.Contains(c.In(), p) }
		switch {
		case len(o.Profiles) > 0 && !slices.ContainsFunc(o.Profiles, in):
			return "not of the profile"
		case !filter.MatchString(c.ID):
			return "filtered out"
		}
		return ""
	}}, nil
}

// chooseAgain chooses the cases of an earlier report that came to no good end.
func chooseAgain(o Options) (choice, error) {
	if len(o.Profiles) > 0 || o.Filter != "" {
		return choice{}, errors.New("rerun: the profiles and the filter are those of the earlier report")
	}
	again := o.Rerun.ToRerun()
	if len(again) == 0 {
		return choice{}, errors.New("rerun: no case of the earlier report failed or was inconclusive")
	}
	var claimed []suite.Profile
	for _, name := range o.Rerun.Suite.Profiles {
		claimed = append(claimed, suite.Profile(name))
	}
	return choice{profiles: claimed, filter: o.Rerun.Suite.Filter, skip: func(c *suite.Case) string {
		if !slices.Contains(again, c.ID) {
			return "not to run again"
		}
		return ""
	}}, nil
}

// specs describes the claimed profiles, or all if there are none, for the report.
func specs(claimed []suite.Profile, all []suite.Case) []report.ProfileSpec {
	if len(claimed) == 0 {
		claimed = suite.Profiles()
	}
	var out []report.ProfileSpec
	for _, p := range claimed {
		out = append(out, report.ProfileSpec{Name: string(p), Core: toStrings(p.Core()),
			Extended: toStrings(p.Extended(all))})
	}
	return out
}

// digest identifies a list of cases by all that a verdict depends on, but for the code of their checks.
func digest(all []suite.Case) string {
	hash := sha256.New()
	encode := json.NewEncoder(hash)
	for _, c := range all {
		// Strings and lists of strings are always encoded, and a hash takes all.
		_ = encode.Encode([]any{c.ID, c.Component, c.Requirement, c.Needs, c.In(), c.Since})
	}
	return fmt.Sprintf("sha256:%x", hash.Sum(nil)[:12])
}
