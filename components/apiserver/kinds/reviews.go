package kinds

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"quintet.dev/quintet/components/apiserver/kinds/reviews"
)

func tokenReviews(deps Deps) *Kind {
	return define(row[*authenticationv1.TokenReview]{
		Name: "TokenReview", Resource: "tokenreviews", Cluster: true,
		Hub:    authenticationv1.SchemeGroupVersion,
		Answer: answer("tokenreviews", deps.TokenReview),
	})
}

func selfSubjectReviews(deps Deps) *Kind {
	return define(row[*authenticationv1.SelfSubjectReview]{
		Name: "SelfSubjectReview", Resource: "selfsubjectreviews", Cluster: true,
		Hub: authenticationv1.SchemeGroupVersion,
		Strategy: strategy[*authenticationv1.SelfSubjectReview]{
			PrepareCreate: func(_ context.Context, r *authenticationv1.SelfSubjectReview) {
				r.Status = authenticationv1.SelfSubjectReviewStatus{}
			},
		},
		Columns: reviews.SelfSubjectColumns(),
		Row:     reviews.SelfSubjectRow,
		Answer:  answer("selfsubjectreviews", deps.SelfSubjectReview),
	})
}

func subjectAccessReviews(deps Deps) *Kind {
	return define(row[*authorizationv1.SubjectAccessReview]{
		Name: "SubjectAccessReview", Resource: "subjectaccessreviews", Cluster: true,
		Hub:      authorizationv1.SchemeGroupVersion,
		Strategy: strategy[*authorizationv1.SubjectAccessReview]{Validate: reviews.ValidateSubject},
		Answer:   answer("subjectaccessreviews", deps.SubjectAccessReview),
	})
}

func localSubjectAccessReviews(deps Deps) *Kind {
	return define(row[*authorizationv1.LocalSubjectAccessReview]{
		Name: "LocalSubjectAccessReview", Resource: "localsubjectaccessreviews",
		Hub:      authorizationv1.SchemeGroupVersion,
		Strategy: strategy[*authorizationv1.LocalSubjectAccessReview]{Validate: reviews.ValidateLocal},
		Answer:   answer("localsubjectaccessreviews", deps.LocalSubjectAccessReview),
	})
}

func selfSubjectAccessReviews(deps Deps) *Kind {
	return define(row[*authorizationv1.SelfSubjectAccessReview]{
		Name: "SelfSubjectAccessReview", Resource: "selfsubjectaccessreviews", Cluster: true,
		Hub:      authorizationv1.SchemeGroupVersion,
		Strategy: strategy[*authorizationv1.SelfSubjectAccessReview]{Validate: reviews.ValidateSelf},
		Answer:   answer("selfsubjectaccessreviews", deps.SelfSubjectAccessReview),
	})
}

func selfSubjectRulesReviews(deps Deps) *Kind {
	return define(row[*authorizationv1.SelfSubjectRulesReview]{
		Name: "SelfSubjectRulesReview", Resource: "selfsubjectrulesreviews", Cluster: true,
		Hub:    authorizationv1.SchemeGroupVersion,
		Answer: answer("selfsubjectrulesreviews", deps.SelfSubjectRulesReview),
	})
}
