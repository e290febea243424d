package faults

import "slices"

// Shrink finds a minimal list of rules with which fails still holds: without any one of them it doesn't. The list is
// empty if fails holds without rules, which Shrink tries first: no rule is to blame then. fails is called with plans of
// the same seed, many times, and should be deterministic; it is not called with the whole plan, for which the caller
// checks that fails holds. Rules are named first, so that each decides as it did in the whole plan.
func Shrink(plan Plan, fails func(Plan) bool) Plan {
	rules := slices.Clone(plan.Rules)
	for i := range rules {
		rules[i].Name = rules[i].name(i)
	}
	with := func(rules []Rule) Plan { return Plan{Seed: plan.Seed, Rules: rules} }
	if fails(with(nil)) {
		return with(nil)
	}
	// Halves first, then single rules (delta debugging).
	for size := (len(rules) + 1) / 2; size >= 1 && len(rules) > 1; {
		removed := false
		for from := 0; from < len(rules) && len(rules) > 1; {
			less := slices.Concat(rules[:from], rules[min(from+size, len(rules)):])
			if len(less) < len(rules) && fails(with(less)) {
				rules, removed = less, true
				continue
			}
			from += size
		}
		if !removed {
			if size == 1 {
				break
			}
			size = (size + 1) / 2
		}
	}
	return with(rules)
}
