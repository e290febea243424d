package kinds

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"quintet.dev/quintet/components/apiserver/kinds/reviews"
)

func tokenReviews(deps Deps) *Kind {
	return define(row[*authenticationv1.TokenReview]{
		Name: "TokenReview", Resource: "tokenreviews", Cluster: true,
		Hub:    authenticationv1.SchemeGroupVersion,
		Answer: review("tokenreviews", reviews.CheckToken, deps.TokenReview),
	})
}

func selfSubjectReviews(deps Deps) *Kind {
	return define(row[*authenticationv1.SelfSubjectReview]{
		Name: "SelfSubjectReview", Resource: "selfsubjectreviews", Cluster: true,
		Hub:    authenticationv1.SchemeGroupVersion,
		Answer: review("selfsubjectreviews", nil, deps.SelfSubjectReview),
	})
}

func subjectAccessReviews(deps Deps) *Kind {
	return define(row[*authorizationv1.SubjectAccessReview]{
		Name: "SubjectAccessReview", Resource: "subjectaccessreviews", Cluster: true,
		Hub:    authorizationv1.SchemeGroupVersion,
		Answer: review("subjectaccessreviews", valid(authorizationv1.GroupName, reviews.ValidateSubject), deps.SubjectAccessReview),
	})
}

func localSubjectAccessReviews(deps Deps) *Kind {
	return define(row[*authorizationv1.LocalSubjectAccessReview]{
		Name: "LocalSubjectAccessReview", Resource: "localsubjectaccessreviews",
		Hub:    authorizationv1.SchemeGroupVersion,
		Answer: review("localsubjectaccessreviews", valid(authorizationv1.GroupName, reviews.ValidateLocal), deps.LocalSubjectAccessReview),
	})
}

func selfSubjectAccessReviews(deps Deps) *Kind {
	return define(row[*authorizationv1.SelfSubjectAccessReview]{
		Name: "SelfSubjectAccessReview", Resource: "selfsubjectaccessreviews", Cluster: true,
		Hub:    authorizationv1.SchemeGroupVersion,
		Answer: review("selfsubjectaccessreviews", valid(authorizationv1.GroupName, reviews.ValidateSelf), deps.SelfSubjectAccessReview),
	})
}

func selfSubjectRulesReviews(deps Deps) *Kind {
	return define(row[*authorizationv1.SelfSubjectRulesReview]{
		Name: "SelfSubjectRulesReview", Resource: "selfsubjectrulesreviews", Cluster: true,
		Hub:    authorizationv1.SchemeGroupVersion,
		Answer: review("selfsubjectrulesreviews", reviews.CheckRules, deps.SelfSubjectRulesReview),
	})
}
