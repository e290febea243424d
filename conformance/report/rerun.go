package report

import (
	"errors"
	"fmt"
	"slices"
)

// ToRerun lists the identifiers of the cases that came to no good end: those that failed or were Inconclusive.
func (r *Report) ToRerun() []string {
	var ids []string
	for _, c := range r.Cases {
		if c.Outcome == Failed || c.Outcome == Inconclusive {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// SameSubject returns why a run can't continue a report: it is of other cases, or of another cluster.
func SameSubject(earlier, run *Report) error {
	var errs []error
	if earlier.Suite.Version != run.Suite.Version || earlier.Suite.Digest != run.Suite.Digest {
		errs = append(errs, fmt.Errorf("the suite is another: %s %s, now %s %s", earlier.Suite.Version,
			earlier.Suite.Digest, run.Suite.Version, run.Suite.Digest))
	}
	if earlier.Cluster.Version != run.Cluster.Version || earlier.Cluster.Commit != run.Cluster.Commit {
		errs = append(errs, fmt.Errorf("the cluster is another: %s %s, now %s %s", earlier.Cluster.Version,
			earlier.Cluster.Commit, run.Cluster.Version, run.Cluster.Commit))
	}
	for _, before := range earlier.Cluster.Images {
		if now, replaced := replacement(before, run.Cluster.Images); replaced {
			errs = append(errs, fmt.Errorf("%s runs from another image: %s %s, now %s %s", before.Container, before.Image,
				before.ID, now.Image, now.ID))
		}
	}
	return errors.Join(errs...)
}

// replacement finds what a container runs from now, if that is known and is not the image before.
func replacement(before Image, now []Image) (Image, bool) {
	var other Image
	for _, image := range now {
		if image.Container != before.Container || image.ID == "" || before.ID == "" {
			continue
		}
		if image.ID == before.ID {
			return Image{}, false
		}
		other = image
	}
	return other, other.ID != ""
}

// Merge adds the attempts of a later run to r. Cases that it skipped stay as they are.
func (r *Report) Merge(run *Report) {
	r.Seconds += run.Seconds
	r.Machine, r.Cluster, r.Suite.Image, r.Suite.Features = run.Machine, run.Cluster, run.Suite.Image, run.Suite.Features
	for i := range r.Cases {
		c := &r.Cases[i]
		at := slices.IndexFunc(run.Cases, func(later Case) bool { return later.ID == c.ID })
		if at >= 0 && run.Cases[at].Outcome != Skipped {
			c.merge(run.Cases[at])
		}
	}
}

// merge adds a later attempt. A case that passes after it failed is Flaky, never Passed.
func (c *Case) merge(later Case) {
	attempts := slices.Clone(c.Attempts)
	if len(attempts) == 0 {
		attempts = []Attempt{{c.Outcome, c.Reason, c.Seconds}}
	}
	attempts = append(attempts, Attempt{later.Outcome, later.Reason, later.Seconds})
	*c = later
	c.Attempts = attempts
	if later.Outcome != Passed {
		return
	}
	c.Reason = fmt.Sprintf("passed at attempt %d", len(attempts))
	for i, attempt := range attempts {
		if attempt.Outcome == Failed {
			c.Outcome = Flaky
			c.Reason += fmt.Sprintf("; attempt %d failed: %s", i+1, attempt.Reason)
			return
		}
	}
}
