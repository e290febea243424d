// Package legacytokens removes the token Secrets that old clusters created for every service account and that are
// unused
// (https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/#legacy-serviceaccount-token-cleaner).
package legacytokens

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

const (
	lastUsedLabel     = "kubernetes.io/legacy-token-last-used"
	invalidSinceLabel = "kubernetes.io/legacy-token-invalid-since"
	day               = "2006-01-02" // how the labels and the record of tracking tell dates
)

// change is the action on a token Secret.
type change int

const (
	keep change = iota
	invalidate
	remove
)

// observed is all that a decision depends on.
type observed struct {
	secret    *v1.Secret
	generated bool // its service account names it
	mounted   bool // by a pod
}

// decide invalidates a token that was not used for period, and deletes it when it stayed unused for another period.
func decide(o observed, period time.Duration, now time.Time) change {
	border := now.Add(-period)
	s := o.secret
	switch {
	case s.Type != v1.SecretTypeServiceAccountToken, s.DeletionTimestamp != nil, !o.generated, o.mounted,
		s.CreationTimestamp.After(border):
		return keep
	}
	if used, ok := s.Labels[lastUsedLabel]; ok && !before(used, border) {
		return keep
	}
	since, ok := s.Labels[invalidSinceLabel]
	switch {
	case !ok:
		return invalidate
	case before(since, border):
		return remove
	}
	return keep
}

// before tells whether the date is before that of border; an invalid date is not.
func before(date string, border time.Time) bool {
	at, err := time.Parse(day, date)
	if err != nil {
		return false
	}
	last, err := time.Parse(day, border.UTC().Format(day))
	return err == nil && at.Before(last)
}

// tracked tells whether uses have been recorded for a whole period: before, an unused token can't be recognized.
func tracked(record *v1.ConfigMap, period time.Duration, now time.Time) bool {
	since, err := time.Parse(day, record.Data["since"])
	return err == nil && !now.Before(since.Add(period))
}
