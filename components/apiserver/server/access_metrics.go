package server

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// accessMetrics count who is let in and what is allowed, under upstream's names.
type accessMetrics struct {
	users          *prometheus.CounterVec
	authentication *prometheus.CounterVec
	authnDuration  *prometheus.HistogramVec
	authorization  *prometheus.CounterVec
	authzDuration  *prometheus.HistogramVec
}

func newAccessMetrics(registry prometheus.Registerer) accessMetrics {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	seconds := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 2, 15)}, []string{"result"})
	}
	m := accessMetrics{
		users:          counter("authenticated_user_requests", "Authenticated requests, by user name.", "username"),
		authentication: counter("authentication_attempts", "Authentications, by result.", "result"),
		authnDuration:  seconds("authentication_duration_seconds", "Time that authentication took, by result."),
		authorization:  counter("authorization_attempts_total", "Authorizations, by result: allowed, denied, no-opinion or error.", "result"),
		authzDuration:  seconds("authorization_duration_seconds", "Time that authorization took, by result."),
	}
	registry.MustRegister(m.users, m.authentication, m.authnDuration, m.authorization, m.authzDuration)
	return m
}

// authenticated counts one authentication that began at start; u is nil if nobody was found.
func (m *accessMetrics) authenticated(u user.Info, err error, start time.Time) {
	result := "success"
	switch {
	case err != nil:
		result = "error"
	case u == nil:
		result = "failure"
	default:
		m.users.WithLabelValues(shownUser(u.GetName())).Inc()
	}
	m.authentication.WithLabelValues(result).Inc()
	m.authnDuration.WithLabelValues(result).Observe(time.Since(start).Seconds())
}

// shownUser keeps the number of names small, as upstream does.
func shownUser(name string) string {
	switch name {
	case "admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default":
		return name
	}
	if strings.Contains(name, "@") {
		return "email_id"
	}
	return "other"
}

// authorized counts one authorization that began at start.
func (m *accessMetrics) authorized(decision authorizer.Decision, err error, start time.Time) {
	result := "no-opinion"
	switch {
	case decision == authorizer.DecisionAllow:
		result = "allowed"
	case err != nil:
		result = "error"
	case decision == authorizer.DecisionDeny:
		result = "denied"
	}
	m.authorization.WithLabelValues(result).Inc()
	m.authzDuration.WithLabelValues(result).Observe(time.Since(start).Seconds())
}
