package kinds

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1alpha2 "k8s.io/api/coordination/v1alpha2"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/coordination"
)

func leases() *Kind {
	return define(row[*coordinationv1.Lease]{
		Name: "Lease", Resource: "leases",
		Hub:    coordinationv1.SchemeGroupVersion,
		Former: []Version{formerTwin[*coordinationv1beta1.Lease, *coordinationv1.Lease](coordinationv1beta1.SchemeGroupVersion, nil)},
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

func leaseCandidates() *Kind {
	type candidate = coordinationv1beta1.LeaseCandidate
	return define(row[*candidate]{
		Name: "LeaseCandidate", Resource: "leasecandidates",
		Hub:    coordinationv1beta1.SchemeGroupVersion,
		Others: []Version{twinned[*coordinationv1alpha2.LeaseCandidate, *candidate](coordinationv1alpha2.SchemeGroupVersion, nil)},
		Strategy: strategy[*candidate]{
			AnyFinalizer:   true,
			Validate:       coordination.ValidateCandidate,
			ValidateUpdate: coordination.ValidateCandidateUpdate,
			ValidateName:   coordination.ValidCandidateName,
			CreateOnUpdate: true,
		},
		Columns: coordination.CandidateColumns(),
		Row:     coordination.CandidateRow,
	})
}
