package authn

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
)

func webhookConfig(server string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
contexts: [{name: x, context: {cluster: c, user: ""}}]
current-context: x
`, server)
}

func TestTokenWebhook(t *testing.T) {
	asked := 0
	remote := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil ||
			review.APIVersion != "authentication.k8s.io/v1" {
			t.Errorf("asked with %+v, %v", review, err)
		}
		review.Status.Authenticated = review.Spec.Token == "good"
		if review.Status.Authenticated {
			review.Status.User = authenticationv1.UserInfo{Username: "jane", UID: "1", Groups: []string{"g"},
				Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}}}
			review.Status.Audiences = review.Spec.Audiences
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&review)
	}))
	t.Cleanup(remote.Close)
	c, err := New(Config{Audiences: []string{"api"}, Webhook: TokenWebhook{
		ConfigFile: write(t, "kubeconfig", []byte(webhookConfig(remote.URL))), Version: "v1", CacheTTL: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		response, ok, err := c.AuthenticateToken(context.Background(), "good", nil)
		if err != nil || !ok || response.User.GetName() != "jane" || response.User.GetUID() != "1" ||
			response.User.GetExtra()["k"][0] != "v" ||
			!slices.Equal(response.User.GetGroups(), []string{"g", "system:authenticated"}) {
			t.Fatalf("got %+v, %v, %v", response, ok, err)
		}
	}
	if _, ok, err := c.AuthenticateToken(context.Background(), "bad", nil); ok || err == nil {
		t.Errorf("a bad token: %v, %v", ok, err)
	}
	if asked != 2 {
		t.Errorf("asked %d times; an answer is to be remembered", asked)
	}
	remote.Close()
	if _, ok, err := c.AuthenticateToken(context.Background(), "other", nil); ok || err == nil {
		t.Errorf("an unreachable webhook: %v, %v", ok, err)
	}
}
