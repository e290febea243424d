// Package reviews answers questions about users: who has this token, who am I, may I, may they
// (https://kubernetes.io/docs/reference/access-authn-authz/authorization/#checking-api-access). Each answer gets a
// review that it owns, whose content is valid, and returns it with its status.
package reviews

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Access answers reviews of what users may do.
type Access struct {
	Authorizer authorizer.Authorizer
	Rules      authorizer.RuleResolver
}

// Subject answers a SubjectAccessReview.
func (a *Access) Subject(ctx context.Context,
	r *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
	r.Status = a.decide(ctx, subjectAttributes(&r.Spec))
	return r, nil
}

// LocalSubject answers a LocalSubjectAccessReview.
func (a *Access) LocalSubject(ctx context.Context,
	r *authorizationv1.LocalSubjectAccessReview) (*authorizationv1.LocalSubjectAccessReview, error) {
	namespace, _ := request.NamespaceFrom(ctx)
	if namespace == "" {
		namespace = r.Namespace
	}
	if namespace == "" {
		return nil, apierrors.NewBadRequest("namespace is required on this type")
	}
	if r.Spec.ResourceAttributes == nil || namespace != r.Spec.ResourceAttributes.Namespace {
		return nil, apierrors.NewBadRequest("spec.resourceAttributes.namespace must match namespace: " + namespace)
	}
	r.Status = a.decide(ctx, subjectAttributes(&r.Spec))
	return r, nil
}

// Self answers a SelfSubjectAccessReview.
func (a *Access) Self(ctx context.Context,
	r *authorizationv1.SelfSubjectAccessReview) (*authorizationv1.SelfSubjectAccessReview, error) {
	u, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	r.Status = a.decide(ctx, attributes(u, r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes))
	return r, nil
}

// SelfRules answers a SelfSubjectRulesReview, with nothing but the status, as upstream.
func (a *Access) SelfRules(ctx context.Context,
	r *authorizationv1.SelfSubjectRulesReview) (*authorizationv1.SelfSubjectRulesReview, error) {
	u, ok := request.UserFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("no user present on request")
	}
	resources, urls, incomplete, err := a.Rules.RulesFor(ctx, u, r.Spec.Namespace)
	out := &authorizationv1.SelfSubjectRulesReview{Status: authorizationv1.SubjectRulesReviewStatus{
		ResourceRules:    []authorizationv1.ResourceRule{},
		NonResourceRules: []authorizationv1.NonResourceRule{},
		Incomplete:       incomplete,
	}}
	for _, rule := range resources {
		out.Status.ResourceRules = append(out.Status.ResourceRules, authorizationv1.ResourceRule{
			Verbs: rule.GetVerbs(), APIGroups: rule.GetAPIGroups(), Resources: rule.GetResources(),
			ResourceNames: rule.GetResourceNames(),
		})
	}
	for _, rule := range urls {
		out.Status.NonResourceRules = append(out.Status.NonResourceRules, authorizationv1.NonResourceRule{
			Verbs: rule.GetVerbs(), NonResourceURLs: rule.GetNonResourceURLs(),
		})
	}
	if err != nil {
		out.Status.EvaluationError = err.Error()
	}
	return out, nil
}

func (a *Access) decide(ctx context.Context, r authorizer.AttributesRecord) authorizationv1.SubjectAccessReviewStatus {
	decision, reason, err := a.Authorizer.Authorize(ctx, r)
	status := authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision == authorizer.DecisionAllow,
		Denied:  decision == authorizer.DecisionDeny,
		Reason:  reason,
	}
	var faults []string
	if err != nil {
		faults = append(faults, err.Error())
	}
	if r.FieldSelectorParsingErr != nil {
		faults = append(faults, ignored("fieldSelector", len(r.FieldSelectorRequirements)))
	}
	if r.LabelSelectorParsingErr != nil {
		faults = append(faults, ignored("labelSelector", len(r.LabelSelectorRequirements)))
	}
	status.EvaluationError = strings.Join(faults, "; ")
	return status
}

// ignored tells of a selector that could not be read, or of which only some requirements could.
func ignored(selector string, read int) string {
	how := "ignored"
	if read > 0 {
		how = "partially ignored"
	}
	return fmt.Sprintf("spec.resourceAttributes.%s %s due to parse error", selector, how)
}

func subjectAttributes(spec *authorizationv1.SubjectAccessReviewSpec) authorizer.AttributesRecord {
	u := &user.DefaultInfo{Name: spec.User, UID: spec.UID, Groups: spec.Groups}
	if len(spec.Extra) > 0 {
		u.Extra = make(map[string][]string, len(spec.Extra))
		for k, v := range spec.Extra {
			u.Extra[k] = v
		}
	}
	return attributes(u, spec.ResourceAttributes, spec.NonResourceAttributes)
}

func attributes(u user.Info, resource *authorizationv1.ResourceAttributes,
	url *authorizationv1.NonResourceAttributes) authorizer.AttributesRecord {
	if resource == nil {
		out := authorizer.AttributesRecord{User: u}
		if url != nil {
			out.Verb, out.Path = url.Verb, url.Path
		}
		return out
	}
	out := authorizer.AttributesRecord{
		User: u, Verb: resource.Verb, Namespace: resource.Namespace, APIGroup: resource.Group,
		APIVersion: versionOf(resource.Version),
		Resource:   resource.Resource, Subresource: resource.Subresource, Name: resource.Name, ResourceRequest: true,
	}
	if resource.FieldSelector != nil {
		out.FieldSelectorRequirements, out.FieldSelectorParsingErr = fieldRequirements(resource.FieldSelector)
	}
	if resource.LabelSelector != nil {
		out.LabelSelectorRequirements, out.LabelSelectorParsingErr = labelRequirements(resource.LabelSelector)
	}
	return out
}

// versionOf: a review that names no version is about all of them.
func versionOf(version string) string {
	if version == "" {
		return "*"
	}
	return version
}
