package reviews

import (
	"context"
	"errors"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// recorder remembers what it was asked and answers always the same.
type recorder struct {
	asked    authorizer.Attributes
	decision authorizer.Decision
	reason   string
	err      error
}

func (r *recorder) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	r.asked = a
	return r.decision, r.reason, r.err
}

func (r *recorder) RulesFor(context.Context, user.Info, string) ([]authorizer.ResourceRuleInfo,
	[]authorizer.NonResourceRuleInfo, bool, error) {
	return []authorizer.ResourceRuleInfo{
		&authorizer.DefaultResourceRuleInfo{Verbs: []string{"get"}, Resources: []string{"pods"}}}, nil, true, r.err
}

func TestSubject(t *testing.T) {
	for _, tt := range []struct {
		name            string
		rec             recorder
		allowed, denied bool
	}{
		{"allowed", recorder{decision: authorizer.DecisionAllow, reason: "because"}, true, false},
		{"no opinion", recorder{decision: authorizer.DecisionNoOpinion, err: errors.New("broken")}, false, false},
		{"denied", recorder{decision: authorizer.DecisionDeny}, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := &Access{Authorizer: &tt.rec, Rules: &tt.rec}
			out, err := a.Subject(context.Background(),
				&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
					User: "jane", Groups: []string{"g"}, Extra: map[string]authorizationv1.ExtraValue{"k": {"v"}},
					ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "ns", Verb: "list",
						Resource:    "pods",
						Subresource: "log",
						FieldSelector: &authorizationv1.FieldSelectorAttributes{
							Requirements: []metav1.FieldSelectorRequirement{
								{Key: "spec.nodeName", Operator: metav1.FieldSelectorOpIn, Values: []string{"n1"}}}}},
				}})
			if err != nil {
				t.Fatal(err)
			}
			if out.Status.Allowed != tt.allowed || out.Status.Denied != tt.denied ||
				out.Status.Reason != tt.rec.reason ||
				(out.Status.EvaluationError != "") != (tt.rec.err != nil) {
				t.Errorf("status %+v", out.Status)
			}
			asked := tt.rec.asked
			fields, err := asked.GetFieldSelector()
			if asked.GetUser().GetName() != "jane" || asked.GetUser().GetExtra()["k"][0] != "v" ||
				asked.GetVerb() != "list" || asked.GetAPIVersion() != "*" ||
				asked.GetSubresource() != "log" || !asked.IsResourceRequest() || err != nil || len(fields) != 1 ||
				fields[0].Value != "n1" {
				t.Errorf("asked %+v", asked)
			}
		})
	}
}

func TestLocalSubjectNamespace(t *testing.T) {
	rec := &recorder{decision: authorizer.DecisionAllow}
	a := &Access{Authorizer: rec}
	review := &authorizationv1.LocalSubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "jane", ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "other", Verb: "get",
			Resource: "pods"}}}
	if _, err := a.LocalSubject(request.WithNamespace(context.Background(), "ns"),
		review); !apierrors.IsBadRequest(err) {
		t.Errorf("error %v", err)
	}
	out, err := a.LocalSubject(request.WithNamespace(context.Background(), "other"), review)
	if err != nil || !out.Status.Allowed {
		t.Errorf("%v %v", out, err)
	}
}

func TestSelf(t *testing.T) {
	ctx := request.WithUser(context.Background(),
		&user.DefaultInfo{Name: "jane", UID: "1", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}})
	rec := &recorder{decision: authorizer.DecisionAllow}
	a := &Access{Authorizer: rec, Rules: rec}
	out, err := a.Self(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}}})
	if err != nil || !out.Status.Allowed || rec.asked.GetPath() != "/metrics" ||
		rec.asked.GetUser().GetName() != "jane" {
		t.Errorf("%v %v asked %v", out, err, rec.asked)
	}
	rules, err := a.SelfRules(ctx,
		&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "ns"}})
	if err != nil || len(rules.Status.ResourceRules) != 1 || rules.Status.NonResourceRules == nil ||
		!rules.Status.Incomplete {
		t.Errorf("%+v %v", rules, err)
	}
	if _, err := a.Self(context.Background(),
		&authorizationv1.SelfSubjectAccessReview{}); !apierrors.IsBadRequest(err) {
		t.Errorf("without user: %v", err)
	}
	me, err := Self(time.Now)(ctx, &authenticationv1.SelfSubjectReview{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
	if err != nil || me.Name != "" || me.CreationTimestamp.IsZero() || me.Status.UserInfo.Username != "jane" ||
		me.Status.UserInfo.Extra["k"][0] != "v" {
		t.Errorf("%+v %v", me, err)
	}
}

type fakeTokens struct{}

func (fakeTokens) AuthenticateToken(_ context.Context, token string, audiences []string) (*authenticator.Response, bool,
	error) {
	if token != "good" {
		return nil, false, errors.New("invalid bearer token")
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: "jane"}, Audiences: audiences}, true, nil
}

func TestToken(t *testing.T) {
	answer := Token(fakeTokens{})
	for token, want := range map[string]bool{"good": true, "bad": false} {
		out, err := answer(context.Background(),
			&authenticationv1.TokenReview{
				Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{"a"}}})
		if err != nil {
			t.Fatal(err)
		}
		if out.Status.Authenticated != want || (out.Status.User.Username == "jane") != want ||
			(out.Status.Error == "") != want || (len(out.Status.Audiences) == 1) != want {
			t.Errorf("%s: %+v", token, out.Status)
		}
	}
}

// TestTokenKeepsWhatWasSent: only what is found out replaces what the status of the review said.
func TestTokenKeepsWhatWasSent(t *testing.T) {
	out, err := Token(fakeTokens{})(context.Background(),
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "good"},
			Status: authenticationv1.TokenReviewStatus{Error: "sent",
				User: authenticationv1.UserInfo{Username: "sent"}}})
	if err != nil || !out.Status.Authenticated || out.Status.Error != "sent" || out.Status.User.Username != "jane" {
		t.Errorf("%+v %v", out, err)
	}
}

func TestSelectorsThatCantBeRead(t *testing.T) {
	a := &Access{Authorizer: &recorder{err: errors.New("broken")}}
	review, err := a.Subject(context.Background(),
		&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				FieldSelector: &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{
					{Key: "a", Operator: "In", Values: []string{"x"}}, {Key: "b", Operator: "Like"}}},
				LabelSelector: &authorizationv1.LabelSelectorAttributes{RawSelector: "a in (b"},
			}}})
	const want = "broken; spec.resourceAttributes.fieldSelector partially ignored due to parse error; " +
		"spec.resourceAttributes.labelSelector ignored due to parse error"
	if err != nil || review.Status.EvaluationError != want {
		t.Errorf("got %q, %v", review.Status.EvaluationError, err)
	}
	out, err := fieldRequirements(
		&authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{
			{Key: "a", Operator: metav1.FieldSelectorOpExists},
			{Key: "b", Operator: metav1.FieldSelectorOpIn, Values: []string{"1", "2"}},
			{Key: "c", Operator: metav1.FieldSelectorOpNotIn, Values: []string{"x"}}}})
	if len(out) != 1 || err == nil {
		t.Errorf("%v %v", out, err)
	}
	if _, err := labelRequirements(&authorizationv1.LabelSelectorAttributes{RawSelector: "a in (b"}); err == nil {
		t.Error("a broken label selector was read")
	}
}
