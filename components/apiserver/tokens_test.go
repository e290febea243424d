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
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	answer, err := accounts.CreateToken(t.Context(), "a", &authenticationv1.TokenRequest{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"x"}},
	}, metav1.CreateOptions{FieldManager: "me"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:audiences":{},"f:expirationSeconds":{}}}`
	m := answer.ManagedFields
	if len(m) != 1 || m[0].Manager != "me" || m[0].Subresource != "token" || m[0].APIVersion != "authentication.k8s.io/v1" || m[0].FieldsV1.GetRawString() != want {
		t.Errorf("got %+v", m)
	}
}
