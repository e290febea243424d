package server

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// accessMetrics count authentication and authorization results, under upstream's names.
type accessMetrics struct {
	users          labelled[prometheus.Counter]
	authentication labelled[prometheus.Counter]
	authnDuration  labelled[prometheus.Observer]
	authorization  labelled[prometheus.Counter]
	authzDuration  labelled[prometheus.Observer]
	filters        labelled[prometheus.Observer]
}

// labelled are the metrics of a vector with one label.
type labelled[M any] struct {
	known memo[string, M]
	find  func(...string) M
}

func (l *labelled[M]) get(value string) M {
	return l.known.get(value, func(value string) M { return l.find(value) })
}

func newAccessMetrics(registry prometheus.Registerer) *accessMetrics {
	counter := func(name, help, label string) func(...string) prometheus.Counter {
		vector := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		registry.MustRegister(vector)
		return vector.WithLabelValues
	}
	seconds := func(name, help string) func(...string) prometheus.Observer {
		vector := prometheus.NewHistogramVec(
			prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 2, 15)},
			[]string{"result"})
		registry.MustRegister(vector)
		return vector.WithLabelValues
	}
	m := &accessMetrics{}
	m.users.find = counter("authenticated_user_requests", "Authenticated requests, by user name.", "username")
	m.authentication.find = counter("authentication_attempts", "Authentications, by result.", "result")
	m.authnDuration.find = seconds("authentication_duration_seconds", "Time that authentication took, by result.")
	m.authorization.find = counter("authorization_attempts_total",
		"Authorizations, by result: allowed, denied, no-opinion or error.", "result")
	m.authzDuration.find = seconds("authorization_duration_seconds", "Time that authorization took, by result.")
	filters := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "apiserver_request_filter_duration_seconds",
		Help:    "Time that a filter took until it passed a request on.",
		Buckets: []float64{0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 5, 10, 15, 30},
	}, []string{"filter"})
	registry.MustRegister(filters)
	m.filters.find = filters.WithLabelValues
	return m
}

// authenticated counts one authentication that began at start; u is nil if the request was not authenticated.
func (m *accessMetrics) authenticated(u user.Info, err error, start time.Time) {
	result := "success"
	switch {
	case err != nil:
		result = "error"
	case u == nil:
		result = "failure"
	default:
		m.users.get(shownUser(u.GetName())).Inc()
	}
	m.authentication.get(result).Inc()
	m.authnDuration.get(result).Observe(time.Since(start).Seconds())
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
	m.authorization.get(result).Inc()
	m.authzDuration.get(result).Observe(time.Since(start).Seconds())
}
