package kinds

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/coordination"
)

func leases() *Kind {
	return define(row[*coordinationv1.Lease]{
		Name: "Lease", Resource: "leases",
		Hub: coordinationv1.SchemeGroupVersion,
		Strategy: strategy[*coordinationv1.Lease]{
			AnyFinalizer:   true,
			PrepareCreate:  func(_ context.Context, l *coordinationv1.Lease) { coordination.DropCoordination(l, nil) },
			PrepareUpdate:  func(_ context.Context, new, old *coordinationv1.Lease) { coordination.DropCoordination(new, old) },
			Validate:       coordination.ValidateLease,
			ValidateUpdate: func(new, _ *coordinationv1.Lease) field.ErrorList { return coordination.ValidateLease(new) },
			ValidateName:   validation.NameIsDNSSubdomain,
			CreateOnUpdate: true,
		},
		Columns: coordination.LeaseColumns(),
		Row:     coordination.LeaseRow,
	})
}
