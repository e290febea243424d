package tracing

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"k8s.io/klog/v2"
)

func traits() []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("url", "/api/v1/pods")}
}

// TestSlow: only what takes long is logged, with the time at which each step was reached.
func TestSlow(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	ctx := klog.NewContext(t.Context(), logger)
	synctest.Test(t, func(*testing.T) {
		for _, takes := range []time.Duration{slow - time.Millisecond, slow} {
			var s Steps
			s.Begin(ctx, "Create", traits)
			time.Sleep(100 * time.Millisecond)
			s.Reach("Conversion done")
			time.Sleep(takes - 100*time.Millisecond)
			s.End(ctx, traits)
		}
		var s Steps // that never began
		s.Reach("nothing")
		time.Sleep(slow)
		s.End(ctx, traits)
	})
	want := `"request"="Create" "took"="500ms" "url"="/api/v1/pods" "Conversion done"="100ms"`
	if len(lines) != 1 || !strings.Contains(lines[0], want) {
		t.Errorf("logged %q", lines)
	}
}

// TestSpans: spans are made below those of who traces, and only below them.
func TestSpans(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	above, top := provider.Tracer("").Start(context.Background(), "top")
	for _, ctx := range []context.Context{context.Background(), above} {
		var s Steps
		ctx = s.Begin(ctx, "Get", traits)
		for i := range most + 1 {
			s.Reach(fmt.Sprint("step ", i))
		}
		_, part := Part(ctx, "cacher.Get")
		part.End()
		s.Part(ctx, "SerializeObject").End()
		s.End(ctx, traits)
	}
	top.End()
	var names []string
	for _, span := range recorder.Ended() {
		names = append(names, span.Name())
		if span.Name() == "Get" && (len(span.Events()) != most+1 || !slices.Equal(span.Attributes(), traits())) {
			t.Errorf("%d events, attributes %v", len(span.Events()), span.Attributes())
		}
	}
	if got := strings.Join(names, " "); got != "cacher.Get SerializeObject Get top" {
		t.Error(got)
	}
}

// TestFree: who isn't traced pays with no memory.
func TestFree(t *testing.T) {
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() {
		var s Steps
		ctx := s.Begin(ctx, "Get", traits)
		s.Reach("About to Get from storage")
		_, span := Part(ctx, "cacher.Get")
		span.End()
		s.End(ctx, traits)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestAuditID: of a long identity only the beginning is told.
func TestAuditID(t *testing.T) {
	long := strings.Repeat("x", 100)
	for id, want := range map[string]string{"": "", "7": "7", long: long[:64]} {
		header := http.Header{}
		header.Set("Audit-ID", id)
		if got := AuditID(header); got.Key != "audit-id" || got.Value.AsString() != want {
			t.Errorf("%q: %+v", id, got)
		}
	}
}
