// Package tracing records the steps of a request: as spans with upstream's names
// (https://kubernetes.io/docs/concepts/cluster-administration/system-traces/), and in the log if it takes long.
package tracing

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/klog/v2"
)

// slow is how long a request may take before the log tells what it did meanwhile.
const slow = 500 * time.Millisecond

// most is how many steps are remembered for the log: there is room for as many as a request has that does nothing
// again.
const most = 8

// scope is the instrumentation scope of the spans.
const scope = "quintet.dev/quintet/components/apiserver/tracing"

// Steps are those of one request. They are used by one goroutine at a time; the zero value notes nothing until it
// begins.
type Steps struct {
	name  string
	span  trace.Span // nil if the request isn't traced
	begin time.Time
	done  [most]step
	n     int
}

type step struct {
	name  string
	after time.Duration // the begin
}

// Begin begins a named operation, and returns the context for all that it does. It is described by its traits, which
// are added at once only if it is traced.
func (s *Steps) Begin(ctx context.Context, name string, traits func() []attribute.KeyValue) context.Context {
	s.name, s.begin = name, time.Now()
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx
	}
	ctx, s.span = parent.TracerProvider().Tracer(scope).Start(ctx, name, trace.WithAttributes(traits()...))
	return ctx
}

// Reach notes that a step is reached.
func (s *Steps) Reach(name string) {
	if s.name == "" {
		return
	}
	if s.span != nil {
		s.span.AddEvent(name)
	}
	if s.n < most {
		s.done[s.n] = step{name, time.Since(s.begin)}
		s.n++
	}
}

// Part begins the span of a part, which the caller ends.
func (s *Steps) Part(ctx context.Context, name string) trace.Span {
	if s.span == nil {
		return noopSpan
	}
	_, span := Part(ctx, name)
	return span
}

// End ends what was begun. What was slow is logged, with its traits.
func (s *Steps) End(ctx context.Context, traits func() []attribute.KeyValue) {
	if s.name == "" {
		return
	}
	if s.span != nil {
		s.span.End()
	}
	if took := time.Since(s.begin); took >= slow {
		klog.FromContext(ctx).Info("Slow request", s.told(took, traits())...)
	}
}

// told are the keys and values of a line of the log: each step comes with the time at which it was reached.
func (s *Steps) told(took time.Duration, traits []attribute.KeyValue) []any {
	out := []any{"request", s.name, "took", took}
	for _, t := range traits {
		out = append(out, string(t.Key), t.Value.AsInterface())
	}
	for _, d := range s.done[:s.n] {
		out = append(out, d.name, d.after)
	}
	return out
}

// longestAuditID is how much is told, in bytes, of the identity by which a request is audited: clients may choose it.
const longestAuditID = 64

// AuditID is the trait by which a request is found in the audit log; header is that of its answer.
func AuditID(header http.Header) attribute.KeyValue {
	id := header.Get(auditapi.HeaderAuditID)
	return attribute.String("audit-id", id[:min(len(id), longestAuditID)])
}

// Part begins a span of a part of what ctx is about, which the caller ends, and returns the context for what is done in
// it. If the request isn't traced, the span does nothing.
func Part(ctx context.Context, name string) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, noopSpan
	}
	return parent.TracerProvider().Tracer(scope).Start(ctx, name)
}

// noopSpan is the span of what isn't traced. It has no state.
var noopSpan = trace.SpanFromContext(context.Background())
