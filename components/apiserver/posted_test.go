package apiserver_test

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPostedIsShown: admission sees what is posted to subresources with its managers, without what Evictions may not
// say, and tokens with the account that they are for; what makes no sense it doesn't see.
func TestPostedIsShown(t *testing.T) {
	c, h := start(t).client(t), newHooks(t)
	ctx, pods := t.Context(), c.CoreV1().Pods("default")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := c.CoreV1().ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := pods.Create(ctx, pod("p", ""), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bodies := make(chan string, 10)
	h.answer["all"] = func(r *admissionv1.AdmissionRequest, _ *admissionv1.AdmissionResponse) {
		bodies <- string(r.Object.Raw)
	}
	install(t, c, validating("all", h.at("all"), "pods/binding", "pods/eviction", "serviceaccounts/token"))
	shown := func() string {
		select {
		case body := <-bodies:
			return body
		default:
			return ""
		}
	}
	owned := metav1.ObjectMeta{Name: "p", Labels: map[string]string{"a": "b"},
		DeletionGracePeriodSeconds: new(int64(5))}
	err := pods.Bind(ctx, &corev1.Binding{ObjectMeta: owned, Target: corev1.ObjectReference{Kind: "Ship", Name: "n"}},
		metav1.CreateOptions{})
	if body := shown(); err == nil || body != "" {
		t.Errorf("a binding to a ship: %v, shown %s", err, body)
	}
	err = pods.Bind(ctx, &corev1.Binding{ObjectMeta: owned, Target: corev1.ObjectReference{Name: "n"}},
		metav1.CreateOptions{FieldManager: "m"})
	if body := shown(); err != nil || !strings.Contains(body, `"manager":"m"`) || !strings.Contains(body, "f:target") ||
		!strings.Contains(body, "deletionGrace") {
		t.Errorf("a binding: %v, shown %s", err, body)
	}
	err = pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: owned})
	if body := shown(); err != nil || !strings.Contains(body, "managedFields") ||
		strings.Contains(body, "deletionGrace") {
		t.Errorf("an eviction: %v, shown %s", err, body)
	}
	accounts := c.CoreV1().ServiceAccounts("default")
	_, err = accounts.CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	body := shown()
	for _, want := range []string{`"name":"default"`, `"uid"`, `"creationTimestamp":"`, `"audiences"`,
		`"managedFields"`} {
		if err != nil || !strings.Contains(body, want) {
			t.Errorf("a token: %v, shown %s, without %s", err, body, want)
		}
	}
	short := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(1))}}
	if _, err := accounts.CreateToken(ctx, "default", short, metav1.CreateOptions{}); err == nil || shown() != "" {
		t.Errorf("a short token was shown, %v", err)
	}
}
