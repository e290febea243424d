package suite

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/conformance/report"
	"quintet.dev/quintet/conformance/score"
)

// Engine runs cases side by side. Each has a namespace of its own, so that they don't see each other; those that would
// disturb others are Serial and run alone, after the others.
type Engine struct {
	Cluster *Cluster
	Cases   []Case
	// Skip tells why a case is not to run; "" runs it. Nil runs all.
	Skip func(*Case) string
	// Parallel is how many cases run at once; below 1 means one.
	Parallel int
	// Timeout bounds every case that is given longer; 0 for none.
	Timeout time.Duration
	// Progress gets a line per case, when it ends; nil for none.
	Progress io.Writer

	progressMu sync.Mutex
}

// result is what one case leaves behind.
type result struct {
	outcome report.Outcome
	reason  string
	seconds float64
	score   *score.Timeline
}

// Run runs the cases and returns them, in their order, with their outcomes. Those that ctx's end left no time for are
// Inconclusive.
func (e *Engine) Run(ctx context.Context) []report.Case {
	results := make([]result, len(e.Cases))
	e.runAll(ctx, results, max(e.Parallel, 1), func(c *Case) bool { return !c.Serial })
	e.runAll(ctx, results, 1, func(c *Case) bool { return c.Serial })
	cases := make([]report.Case, len(e.Cases))
	for i := range e.Cases {
		cases[i] = e.Cases[i].report(results[i])
	}
	return cases
}

// runAll runs the picked cases, as many at once as parallel says, in their order.
func (e *Engine) runAll(ctx context.Context, results []result, parallel int, pick func(*Case) bool) {
	var running errgroup.Group
	running.SetLimit(parallel)
	for i := range e.Cases {
		if c := &e.Cases[i]; pick(c) {
			running.Go(func() error {
				results[i] = e.runCase(ctx, c)
				return nil
			})
		}
	}
	_ = running.Wait() // a case's failure is its result
}

// runCase runs a case, unless it is skipped.
func (e *Engine) runCase(ctx context.Context, c *Case) result {
	if e.Skip != nil {
		if reason := e.Skip(c); reason != "" {
			return result{outcome: report.Skipped, reason: reason}
		}
	}
	var out result
	if missing := e.Cluster.missing(c.Needs); missing != "" {
		out = e.Cluster.without(c, missing)
	} else if ctx.Err() != nil {
		out = result{outcome: report.Inconclusive, reason: "the run was ended before"}
	} else if reason := e.Cluster.endedFor(c); reason != nil {
		out = result{outcome: report.Failed, reason: reason.Error()}
	} else {
		out = e.run(ctx, c)
	}
	e.progress(c, out)
	return out
}

func (e *Engine) progress(c *Case, out result) {
	if e.Progress == nil {
		return
	}
	line := fmt.Sprintf("%-12s %-34s %6.2f s", out.outcome, c.ID, out.seconds)
	if out.outcome != report.Passed {
		first, _, _ := strings.Cut(strings.TrimSpace(out.reason), "\n")
		line += "  " + first
	}
	e.progressMu.Lock()
	defer e.progressMu.Unlock()
	fmt.Fprintln(e.Progress, line)
}

func (c *Cluster) missing(needs []Feature) Feature {
	for _, need := range needs {
		if !c.Features[need] && !c.Required[need] {
			return need
		}
	}
	return ""
}

// without is the result of a case that needs a missing feature. That nothing could be found out without the test image
// is not the cluster's lack.
func (c *Cluster) without(test *Case, missing Feature) result {
	if c.pullFailure != "" && slices.Contains(test.Needs, RunsPods) {
		return result{outcome: report.Inconclusive, reason: c.pullFailure}
	}
	return result{outcome: report.NotSupported, reason: "the cluster has no " + string(missing)}
}

// failure ends a case from inside its assertions.
type failure struct{ message string }

func (e *Engine) run(ctx context.Context, c *Case) (out result) {
	timeout := c.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	if e.Timeout > 0 {
		timeout = min(timeout, e.Timeout)
	}
	started := time.Now()
	caseCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer e.Cluster.onEnded(c, cancel)()
	t := &T{Cluster: e.Cluster, abort: func(message string) { panic(failure{message}) }}
	t.Gomega = gomega.NewGomega(func(message string, _ ...int) { t.abort(message) })

	recorder, err := e.prepare(caseCtx, c, t)
	if err != nil {
		out = result{outcome: report.Inconclusive, reason: err.Error()}
	} else {
		out = play(caseCtx, c, t)
	}
	if reason := e.Cluster.endedFor(c); reason != nil && out.outcome != report.Passed {
		out = result{outcome: report.Failed, reason: reason.Error() + "\n\n" + out.reason}
	} else if out.outcome == report.Failed {
		if reason := e.obstacle(ctx, c, t.Namespace); reason != "" {
			out = result{outcome: report.Inconclusive, reason: reason + "\n\n" + out.reason}
		}
	}
	if recorder != nil {
		out.score = recorder.Stop()
	}
	out.seconds = time.Since(started).Seconds()
	e.tidy(ctx, t)
	return out
}

// prepare makes the case's namespace and starts its recording.
func (e *Engine) prepare(ctx context.Context, c *Case, t *T) (*score.Recorder, error) {
	name := "conformance-" + strings.NewReplacer("/", "-", ".", "-").Replace(c.ID) + "-"
	namespace, err := e.Cluster.Client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("make a namespace: %w", err)
	}
	t.Namespace = namespace.Name
	if err := e.Cluster.ensureServiceAccount(ctx, t.Namespace); err != nil {
		return nil, err
	}
	if !c.Score {
		return nil, nil
	}
	return score.Record(ctx, e.Cluster.Client, t.Namespace, Manager)
}

func play(ctx context.Context, c *Case, t *T) (out result) {
	defer func() {
		switch r := recover().(type) {
		case nil:
			out = result{outcome: report.Passed}
		case failure:
			out = result{outcome: report.Failed, reason: r.message}
			if t.fault != nil {
				out = result{outcome: report.Inconclusive, reason: t.fault.Error()}
			}
		default:
			out = result{outcome: report.Inconclusive, reason: fmt.Sprintf("panic: %v", r)}
		}
	}()
	c.Run(ctx, t)
	return
}

// tidy removes what the case left. Its errors are not the case's: a namespace that can't be deleted has a case of its
// own.
func (e *Engine) tidy(ctx context.Context, t *T) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		cleanUp(ctx, t.cleanups[i])
	}
	if t.Namespace != "" {
		_ = e.Cluster.Client.CoreV1().Namespaces().Delete(ctx, t.Namespace, metav1.DeleteOptions{})
	}
}

// cleanUp ends a cleanup whose assertions fail, as a case is ended.
func cleanUp(ctx context.Context, f func(ctx context.Context)) {
	defer func() {
		r := recover()
		if _, failed := r.(failure); r != nil && !failed {
			panic(r)
		}
	}()
	f(ctx)
}

func (c *Case) report(r result) report.Case {
	out := report.Case{
		ID: c.ID, Component: string(c.Component), Requirement: c.Requirement, Reference: c.Reference, Since: c.Since,
		Outcome: r.outcome, Reason: r.reason, Seconds: r.seconds, Score: r.score,
	}
	for _, profile := range c.In() {
		out.Profiles = append(out.Profiles, string(profile))
	}
	for _, need := range c.Needs {
		out.Needs = append(out.Needs, string(need))
	}
	return out
}
