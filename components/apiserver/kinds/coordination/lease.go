package coordination

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

func leases() *api.Kind {
	return api.Define(api.Row[*coordinationv1.Lease]{
		Name: "Lease", Resource: "leases",
		Hub: coordinationv1.SchemeGroupVersion,
		RemovedVersions: []api.Version{api.RemovedTwin[*coordinationv1beta1.Lease, *coordinationv1.Lease](
			coordinationv1beta1.SchemeGroupVersion, nil)},
		Strategy: api.Strategy[*coordinationv1.Lease]{
			AnyFinalizer:  true,
			PrepareCreate: func(_ context.Context, l *coordinationv1.Lease) { DropCoordination(l, nil) },
			PrepareUpdate: func(_ context.Context, new,
				old *coordinationv1.Lease) {
				DropCoordination(new, old)
			},
			Validate:       api.OfObject(ValidateLease),
			ValidateUpdate: api.OfChange(api.IgnoreOld(ValidateLease)),
			ValidateName:   validation.NameIsDNSSubdomain,
			CreateOnUpdate: true,
		},
		Columns: LeaseColumns(),
		Row:     LeaseRow,
	})
}

// DropCoordination drops the fields of coordinated leader election, which is not on (KEP-4355), unless the lease has
// them. old is nil on create.
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
		errs = append(errs, field.Invalid(path.Child("leaseDurationSeconds"), *s.LeaseDurationSeconds,
			"must be greater than 0"))
	}
	if s.LeaseTransitions != nil && *s.LeaseTransitions < 0 {
		errs = append(errs, field.Invalid(path.Child("leaseTransitions"), *s.LeaseTransitions,
			"must be greater than or equal to 0"))
	}
	if s.Strategy != nil {
		for _, msg := range utilvalidation.IsQualifiedName(string(*s.Strategy)) {
			errs = append(errs, field.Invalid(path.Child("strategy"), *s.Strategy, msg))
		}
	}
	if s.PreferredHolder != nil && *s.PreferredHolder != "" && (s.Strategy == nil || *s.Strategy == "") {
		errs = append(errs, field.Forbidden(path.Child("preferredHolder"),
			"may only be specified when `strategy` is defined"))
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
