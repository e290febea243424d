package reviews

import (
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestValidateSubject(t *testing.T) {
	type (
		attributes = authorizationv1.ResourceAttributes
		path       = authorizationv1.NonResourceAttributes
	)
	fields := func(s authorizationv1.FieldSelectorAttributes) *attributes { return &attributes{FieldSelector: &s} }
	labels := func(s authorizationv1.LabelSelectorAttributes) *attributes { return &attributes{LabelSelector: &s} }
	for name, tt := range map[string]struct {
		meta     metav1.ObjectMeta
		user     string
		resource *attributes
		path     *path
		want     string // all messages; "" means valid
	}{
		"resource": {user: "jane", resource: &attributes{}},
		"path":     {user: "jane", path: &path{}},
		"nothing": {want: `spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified, ` +
			`spec.user: Invalid value: "": at least one of user or group must be specified`},
		"both": {user: "jane", resource: &attributes{}, path: &path{Path: "/x", Verb: "get"},
			want: `spec.nonResourceAttributes: Invalid value: {"Path":"/x","Verb":"get"}: cannot be specified in combination with resourceAttributes`},
		"metadata": {user: "jane", resource: &attributes{}, meta: metav1.ObjectMeta{Name: "x"},
			want: `metadata: Invalid value: {"name":"x"}: must be empty`},
		"managed metadata": {user: "jane", resource: &attributes{},
			meta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{}}}},
		"empty selector": {user: "jane", resource: fields(authorizationv1.FieldSelectorAttributes{}),
			want: "spec.resourceAttributes.fieldSelector.requirements: Required value: when " +
				"spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required"},
		"nobody, and an empty selector": {resource: fields(authorizationv1.FieldSelectorAttributes{}),
			want: `spec.user: Invalid value: "": at least one of user or group must be specified, ` +
				"spec.resourceAttributes.fieldSelector.requirements: Required value: when spec.resourceAttributes.fieldSelector " +
				"is specified, requirements or rawSelector is required"},
		"two selectors": {user: "jane",
			resource: labels(authorizationv1.LabelSelectorAttributes{RawSelector: "a",
				Requirements: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Exists"}}}),
			want: `spec.resourceAttributes.labelSelector.rawSelector: Invalid value: "a": may not specified at the same time as requirements`},
		"future operators": {user: "jane",
			resource: fields(authorizationv1.FieldSelectorAttributes{
				Requirements: []metav1.FieldSelectorRequirement{{Key: "a", Operator: "Like"}}})},
		"no values": {user: "jane",
			resource: labels(authorizationv1.LabelSelectorAttributes{
				Requirements: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In"}}}),
			want: "spec.resourceAttributes.labelSelector.requirements[0].values: Required value: must be specified when " +
				"`operator` is 'In' or 'NotIn'"},
	} {
		t.Run(name, func(t *testing.T) {
			errs := ValidateSubject(&authorizationv1.SubjectAccessReview{ObjectMeta: tt.meta,
				Spec: authorizationv1.SubjectAccessReviewSpec{User: tt.user, ResourceAttributes: tt.resource,
					NonResourceAttributes: tt.path}})
			var all []string
			for _, err := range errs {
				all = append(all, err.Error())
			}
			if got := strings.Join(all, ", "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestValidateLocal(t *testing.T) {
	review := &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "a"},
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "jane", ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "b"}}}
	if errs := ValidateLocal(review); len(errs) != 1 || errs[0].Field != "spec.resourceAttributes.namespace" {
		t.Errorf("another namespace: %v", errs)
	}
	review.Spec.ResourceAttributes.Namespace = "a"
	if errs := ValidateLocal(review); len(errs) != 0 {
		t.Errorf("the same namespace: %v", errs)
	}
	review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes = nil,
		&authorizationv1.NonResourceAttributes{Path: "/x"}
	if errs := ValidateLocal(review); len(errs) != 1 ||
		!strings.Contains(errs[0].Error(), "disallowed on this kind of request") {
		t.Errorf("a path: %v", errs)
	}
}
