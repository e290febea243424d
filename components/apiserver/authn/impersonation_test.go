package authn

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
)

func TestImpersonation(t *testing.T) {
	var asked []string
	boss := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		resource := a.GetResource()
		if sub := a.GetSubresource(); sub != "" {
			resource += "/" + sub
		}
		asked = append(asked, a.GetAPIGroup()+":"+resource+":"+a.GetNamespace()+":"+a.GetName())
		if a.GetVerb() == "impersonate" && a.GetUser().GetName() == "boss" && a.GetName() != "system:masters" {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
	for _, tt := range []struct {
		name    string
		from    string
		headers http.Header
		code    int
		user    string
		groups  []string
		asked   []string
	}{
		{"none", "boss", nil, 200, "boss", nil, nil},
		{"user", "boss", http.Header{"Impersonate-User": {"jane"}}, 200, "jane", []string{"system:authenticated"}, []string{":users::jane"}},
		{"groups", "boss", http.Header{"Impersonate-User": {"jane"}, "Impersonate-Group": {"a", "b"}}, 200, "jane", []string{"a", "b", "system:authenticated"},
			[]string{":users::jane", ":groups::a", ":groups::b"}},
		{"uid and extra", "boss", http.Header{"Impersonate-User": {"jane"}, "Impersonate-Uid": {"7"}, "Impersonate-Extra-Acme%2fk": {"v"}}, 200, "jane",
			[]string{"system:authenticated"}, []string{":users::jane", "authentication.k8s.io:userextras/acme/k::v", "authentication.k8s.io:uids::7"}},
		{"account", "boss", http.Header{"Impersonate-User": {"system:serviceaccount:ns:sa"}}, 200, "system:serviceaccount:ns:sa",
			[]string{"system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"}, []string{":serviceaccounts:ns:sa"}},
		{"anonymous", "boss", http.Header{"Impersonate-User": {"system:anonymous"}}, 200, "system:anonymous", []string{"system:unauthenticated"}, []string{":users::system:anonymous"}},
		{"not allowed", "jane", http.Header{"Impersonate-User": {"boss"}}, 403, "", nil, []string{":users::boss"}},
		{"group not allowed", "boss", http.Header{"Impersonate-User": {"jane"}, "Impersonate-Group": {"system:masters"}}, 403, "", nil,
			[]string{":users::jane", ":groups::system:masters"}},
		{"group without user", "boss", http.Header{"Impersonate-Group": {"a"}}, 500, "", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked = nil
			i := &Impersonation{Authorizer: boss,
				Refuse: func(w http.ResponseWriter, _ *http.Request, _ authorizer.Attributes, _ string) { w.WriteHeader(403) },
				Fail:   func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(500) }}
			var got user.Info
			next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got, _ = request.UserFrom(r.Context())
				for name := range r.Header {
					t.Errorf("header %s was passed on", name)
				}
			})
			r := httptest.NewRequest("GET", "/", nil)
			if tt.headers != nil {
				r.Header = tt.headers
			}
			r = r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: tt.from}))
			w := httptest.NewRecorder()
			i.Filter(next).ServeHTTP(w, r)
			if w.Code != tt.code || !slices.Equal(asked, tt.asked) {
				t.Errorf("code %d, asked %q", w.Code, asked)
			}
			if tt.code == 200 && (got.GetName() != tt.user || !slices.Equal(got.GetGroups(), tt.groups)) {
				t.Errorf("user %q, groups %q", got.GetName(), got.GetGroups())
			}
		})
	}
}
