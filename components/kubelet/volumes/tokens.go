package volumes

import (
	"context"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// Tokens requests service account tokens bound to pods and renews them after 80 % of their lifetime or
// 24 hours (https://kubernetes.io/docs/concepts/storage/projected-volumes/#serviceaccounttoken).
// It is safe for concurrent use.
type Tokens struct {
	client kubernetes.Interface
	clock  clock.PassiveClock

	mu    sync.Mutex
	known map[tokenKey]token
}

type tokenKey struct {
	pod      types.UID
	account  string
	audience string
	seconds  int64
}

type token struct {
	value          string
	issued, expiry time.Time
}

// NewTokens makes an empty store of tokens.
func NewTokens(client kubernetes.Interface, clock clock.PassiveClock) *Tokens {
	return &Tokens{client: client, clock: clock, known: map[tokenKey]token{}}
}

// Get returns a token that is good for a while yet.
func (t *Tokens) Get(ctx context.Context, pod *v1.Pod, p *v1.ServiceAccountTokenProjection) (string, error) {
	value, _, err := t.GetExpiring(ctx, pod, p)
	return value, err
}

// GetExpiring returns a token that is good for a while yet, and when it expires.
func (t *Tokens) GetExpiring(ctx context.Context, pod *v1.Pod,
	p *v1.ServiceAccountTokenProjection) (string, time.Time, error) {
	key := tokenKey{pod: pod.UID, account: pod.Spec.ServiceAccountName, audience: p.Audience}
	if p.ExpirationSeconds != nil {
		key.seconds = *p.ExpirationSeconds
	}
	t.mu.Lock()
	have, ok := t.known[key]
	t.mu.Unlock()
	now := t.clock.Now()
	if ok && !have.old(now) {
		return have.value, have.expiry, nil
	}
	fresh, err := t.request(ctx, pod, p)
	if err != nil {
		if ok && now.Before(have.expiry) {
			return have.value, have.expiry, nil // still good; the next refresh tries again
		}
		return "", time.Time{}, fmt.Errorf("token of service account %s/%s: %w", pod.Namespace, pod.Spec.ServiceAccountName,
			err)
	}
	fresh.issued = now
	t.mu.Lock()
	t.known[key] = fresh
	t.mu.Unlock()
	return fresh.value, fresh.expiry, nil
}

func (t token) old(now time.Time) bool {
	life := t.expiry.Sub(t.issued)
	return now.After(t.issued.Add(life*8/10)) || now.After(t.issued.Add(24*time.Hour))
}

func (t *Tokens) request(ctx context.Context, pod *v1.Pod, p *v1.ServiceAccountTokenProjection) (token, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: p.ExpirationSeconds,
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name,
			UID: pod.UID},
	}}
	if p.Audience != "" {
		request.Spec.Audiences = []string{p.Audience}
	}
	answer, err := t.client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName,
		request, metav1.CreateOptions{})
	if err != nil {
		return token{}, err
	}
	return token{value: answer.Status.Token, expiry: answer.Status.ExpirationTimestamp.Time}, nil
}

// Forget drops the tokens of a pod.
func (t *Tokens) Forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.known {
		if key.pod == uid {
			delete(t.known, key)
		}
	}
}
