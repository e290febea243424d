package controllers

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/oauth2"
	clocktesting "k8s.io/utils/clock/testing"
)

// numbered are tokens that are good for an hour.
type numbered struct {
	clock *clocktesting.FakeClock
	n     int
}

func (s *numbered) Token() (*oauth2.Token, error) {
	s.n++
	return &oauth2.Token{AccessToken: fmt.Sprint(s.n), Expiry: s.clock.Now().Add(time.Hour)}, nil
}

func TestTokensExpireByTheClock(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC))
	kept := &keptTokens{source: &numbered{clock: c}, clock: c}
	want := func(when, token string) {
		t.Helper()
		if got, err := kept.Token(); err != nil || got.AccessToken != token {
			t.Errorf("%s: token %v, %v, want %s", when, got, err, token)
		}
	}
	before := time.Now().Add(-time.Second)
	want("at first", "1")
	c.Step(59 * time.Minute)
	want("before it ends", "1")
	c.Step(time.Minute)
	want("when it ended", "2")
	kept.ResetTokenOlderThan(before)
	want("when an older one was refused", "2")
	kept.ResetTokenOlderThan(time.Now().Add(time.Second))
	want("when it was refused", "3")
}
