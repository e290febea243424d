package server

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func TestAccessMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newAccessMetrics(registry)
	for _, name := range []string{"admin", "a@b", "jane", "system:serviceaccount:kube-system:x"} {
		m.authenticated(&user.DefaultInfo{Name: name}, nil, time.Now())
	}
	m.authenticated(nil, errors.New("bad token"), time.Now())
	m.authenticated(nil, nil, time.Now())
	m.authorized(authorizer.DecisionAllow, errors.New("one of several failed"), time.Now())
	m.authorized(authorizer.DecisionDeny, nil, time.Now())
	m.authorized(authorizer.DecisionNoOpinion, nil, time.Now())
	m.authorized(authorizer.DecisionNoOpinion, errors.New("failed"), time.Now())
	const want = `
# HELP authenticated_user_requests Authenticated requests, by user name.
# TYPE authenticated_user_requests counter
authenticated_user_requests{username="admin"} 1
authenticated_user_requests{username="email_id"} 1
authenticated_user_requests{username="other"} 2
# HELP authentication_attempts Authentications, by result.
# TYPE authentication_attempts counter
authentication_attempts{result="error"} 1
authentication_attempts{result="failure"} 1
authentication_attempts{result="success"} 4
# HELP authorization_attempts_total Authorizations, by result: allowed, denied, no-opinion or error.
# TYPE authorization_attempts_total counter
authorization_attempts_total{result="allowed"} 1
authorization_attempts_total{result="denied"} 1
authorization_attempts_total{result="error"} 1
authorization_attempts_total{result="no-opinion"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "authenticated_user_requests",
		"authentication_attempts", "authorization_attempts_total"); err != nil {
		t.Error(err)
	}
}
