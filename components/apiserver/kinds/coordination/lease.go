// Package coordination holds what leases need beyond their row. It is pure.
package coordination

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// DropCoordination drops the fields of coordinated leader election, which is not on (KEP-4355), unless the lease has them.
// old is nil on create.
func DropCoordination(l, old *coordinationv1.Lease) {
	if old == nil || old.Spec.Strategy == nil {
		l.Spec.Strategy = nil
	}
	if old == nil || old.Spec.PreferredHolder == nil {
		l.Spec.PreferredHolder = nil
	}
}

// ValidateLease checks a lease.
func ValidateLease(l *coordinationv1.Lease) field.ErrorList {
	var errs field.ErrorList
	path, s := field.NewPath("spec"), &l.Spec
	if s.LeaseDurationSeconds != nil && *s.LeaseDurationSeconds <= 0 {
		errs = append(errs, field.Invalid(path.Child("leaseDurationSeconds"), *s.LeaseDurationSeconds, "must be greater than 0"))
	}
	if s.LeaseTransitions != nil && *s.LeaseTransitions < 0 {
		errs = append(errs, field.Invalid(path.Child("leaseTransitions"), *s.LeaseTransitions, "must be greater than or equal to 0"))
	}
	if s.Strategy != nil {
		for _, msg := range utilvalidation.IsQualifiedName(string(*s.Strategy)) {
			errs = append(errs, field.Invalid(path.Child("strategy"), *s.Strategy, msg))
		}
	}
	if s.PreferredHolder != nil && *s.PreferredHolder != "" && (s.Strategy == nil || *s.Strategy == "") {
		errs = append(errs, field.Forbidden(path.Child("preferredHolder"), "may only be specified when `strategy` is defined"))
	}
	return errs
}

// LeaseColumns are the columns of leases.
func LeaseColumns() show.Columns {
	return show.Name().String("Holder", coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"]).Age()
}

// LeaseRow are the cells of a lease.
func LeaseRow(l *coordinationv1.Lease) []any {
	return []any{l.Name, show.Or(l.Spec.HolderIdentity, ""), show.Age(l.CreationTimestamp)}
}
