package controllers

import (
	"sync"
	"time"

	"golang.org/x/oauth2"
	"k8s.io/utils/clock"
)

// tokenLeeway is how long before its end a token is no longer used.
const tokenLeeway = 10 * time.Second

// keptTokens keeps a token until it expires by the controllers' clock, which is the API server's, or is refused. It is
// a transport.ResettableTokenSource, and safe for concurrent use.
type keptTokens struct {
	source oauth2.TokenSource
	clock  clock.PassiveClock

	mu    sync.Mutex
	token *oauth2.Token
	since time.Time // real time, as that of requests
}

// Token implements oauth2.TokenSource. Those who wait for a new token get the same.
func (k *keptTokens) Token() (*oauth2.Token, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.token != nil && k.clock.Now().Add(tokenLeeway).Before(k.token.Expiry) {
		return k.token, nil
	}
	token, err := k.source.Token()
	if err != nil {
		return nil, err
	}
	k.token, k.since = token, time.Now()
	return token, nil
}

// ResetTokenOlderThan forgets a token that a request which began at t was refused with.
func (k *keptTokens) ResetTokenOlderThan(t time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.since.Before(t) {
		k.token = nil
	}
}
