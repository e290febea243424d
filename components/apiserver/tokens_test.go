package apiserver_test

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTokenRequestsShowTheirManager: the answer tells who asked for what, defaults included.
func TestTokenRequestsShowTheirManager(t *testing.T) {
	accounts := start(t).client(t).CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	answer, err := accounts.CreateToken(t.Context(), "a", &authenticationv1.TokenRequest{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
		Spec:       authenticationv1.TokenRequestSpec{Audiences: []string{"x"}},
	}, metav1.CreateOptions{FieldManager: "me"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:audiences":{},"f:expirationSeconds":{}}}`
	m := answer.ManagedFields
	if len(m) != 1 || m[0].Manager != "me" || m[0].Subresource != "token" ||
		m[0].APIVersion != "authentication.k8s.io/v1" || m[0].FieldsV1.GetRawString() != want {
		t.Errorf("got %+v", m)
	}
}

// TestReviewsOfSpentTokens: a review tells what has become of a token's account, and that a token was not signed here.
func TestReviewsOfSpentTokens(t *testing.T) {
	f := start(t)
	accounts := f.client(t).CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "x"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	tokenOf := func(f *fixture, name string) string {
		t.Helper()
		made, err := f.client(t).CoreV1().ServiceAccounts("default").CreateToken(t.Context(), name,
			&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return made.Status.Token
	}
	gone := tokenOf(f, "x")
	if err := accounts.Delete(t.Context(), "x", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	other := start(t)
	if _, err := other.client(t).CoreV1().ServiceAccounts("default").Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]string{
		gone:                `[invalid bearer token, serviceaccounts "x" not found]`,
		tokenOf(other, "x"): "[invalid bearer token, invalid signature, no keys found]",
	} {
		eventually(t, want, func() bool { // that an account is gone is known a moment later
			review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
			got, err := f.client(t).AuthenticationV1().TokenReviews().Create(t.Context(), review,
				metav1.CreateOptions{})
			return err == nil && !got.Status.Authenticated && got.Status.Error == want
		})
	}
}
