// Package audit records the requests of users and their results: events as a policy selects them, into a log file, to a
// webhook, or both (https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/).
//
// The event of a request lives in the request's context. What the server finds out about the request on its way (the
// user, the reason of the authorization, the request and response objects, annotations of admission) is added there by
// the code that knows it, with k8s.io/apiserver/pkg/audit, and costs nothing where no event is being written.
package audit

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"

	auditapi "k8s.io/apiserver/pkg/apis/audit"

	"quintet.dev/quintet/components/apiserver/egress"
)

// Auditor writes events. A nil Auditor has nothing to run or close. It is safe for concurrent use.
type Auditor struct {
	rules   audit.PolicyRuleEvaluator
	backend audit.Backend
	close   []func() error
}

// New makes what config describes; nil if it names no policy, or nowhere to write to. The caller runs it, which also
// frees what it holds.
func New(config Config, dial egress.Dial) (*Auditor, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	if config.PolicyFile == "" {
		return nil, nil
	}
	rules, err := policy.LoadPolicyFromFile(config.PolicyFile)
	if err != nil {
		return nil, fmt.Errorf("--audit-policy-file: %w", err)
	}
	a := &Auditor{rules: policy.NewPolicyRuleEvaluator(rules)}
	var backends []audit.Backend
	if config.Log.Path != "" {
		backend, closeLog, err := config.Log.open()
		if err != nil {
			return nil, fmt.Errorf("--audit-log-path: %w", err)
		}
		backends, a.close = append(backends, backend), append(a.close, closeLog)
	}
	if config.Webhook.ConfigFile != "" {
		backend, err := config.Webhook.open(dial)
		if err != nil {
			a.Close()
			return nil, fmt.Errorf("--audit-webhook-config-file: %w", err)
		}
		backends = append(backends, backend)
	}
	if len(backends) == 0 {
		return nil, nil
	}
	a.backend = audit.Union(backends...)
	return a, nil
}

// Close frees what an Auditor holds that is never run.
func (a *Auditor) Close() {
	if a == nil {
		return
	}
	for _, f := range a.close {
		_ = f()
	}
}

// Run delivers events until ctx ends, then those that are still waiting, and closes the Auditor. It is called once. ctx
// must not end before the last request has.
func (a *Auditor) Run(ctx context.Context) error {
	if a == nil {
		return nil
	}
	defer a.Close()
	if err := a.backend.Run(ctx.Done()); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	<-ctx.Done()
	a.backend.Shutdown()
	return nil
}

// Begin wraps the whole way of a request: it gets the event that others fill in.
func (a *Auditor) Begin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := audit.WithAuditContext(request.WithReceivedTimestamp(r.Context(), time.Now()))
		audit.WithAuditID(ctx, types.UID(w.Header().Get(auditapi.HeaderAuditID)))
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Record wraps what comes after authentication: it asks the policy, and writes events when the request has arrived,
// when a long answer begins, and at the end, be it a panic.
func (a *Auditor) Record(next http.Handler, longRunning request.LongRunningRequestCheck) http.Handler {
	return filters.WithAudit(next, a.backend, a.rules, longRunning)
}

// Refused wraps what answers requests that end before authentication, or by it.
func (a *Auditor) Refused(answer http.Handler) http.Handler {
	return filters.WithFailedAuthenticationAudit(answer, a.backend, a.rules)
}
