package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/formatter"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/conformance/report"
	"quintet.dev/quintet/conformance/score"
)

// Engine runs cases as Ginkgo specs. Ginkgo keeps its tree of specs for the whole process, so that an engine runs once
// per process.
type Engine struct {
	Cluster *Cluster
	Cases   []Case
	// Filter picks cases by identifier; nil picks all.
	Filter *regexp.Regexp
	// Timeout bounds every case that is given longer; 0 for none.
	Timeout time.Duration
	// Progress gets a line per case; nil for none.
	Progress io.Writer
}

// result is what one spec leaves behind.
type result struct {
	outcome report.Outcome
	reason  string
	seconds float64
	score   *score.Score
}

// failer takes Ginkgo's verdict on the whole suite; the report says it more finely.
type failer struct{}

func (failer) Fail() {}

// Run runs the cases in order and returns them with their outcomes. Cases that ctx's end left no time for are Skipped. It
// fails only when Ginkgo itself could not run.
func (e *Engine) Run(ctx context.Context) ([]report.Case, error) {
	results := make([]result, len(e.Cases))
	ginkgo.Describe("conformance", func() {
		for i := range e.Cases {
			e.spec(ctx, &e.Cases[i], &results[i])
		}
	})
	// The engine tells of each case in one line; Ginkgo's own rendering would come in between.
	terminal := formatter.ColorableStdOut
	formatter.ColorableStdOut = io.Discard
	defer func() { formatter.ColorableStdOut = terminal }()
	suiteConfig, reporterConfig := ginkgo.GinkgoConfiguration()
	suiteConfig.Timeout = time.Hour
	ginkgo.RunSpecs(failer{}, "conformance", suiteConfig, reporterConfig)

	cases := make([]report.Case, len(e.Cases))
	ran := false
	for i := range e.Cases {
		ran = ran || results[i].outcome != ""
		if results[i].outcome == "" {
			results[i] = result{outcome: report.Skipped, reason: "the run was ended before"}
		}
		cases[i] = e.Cases[i].report(results[i])
	}
	if !ran {
		return nil, errors.New("conformance: the engine ran no case")
	}
	return cases, nil
}

func (e *Engine) spec(ctx context.Context, c *Case, out *result) {
	ginkgo.It(fmt.Sprintf("%s [%s]", c.ID, c.Component), func() {
		if e.Filter != nil && !e.Filter.MatchString(c.ID) {
			*out = result{outcome: report.Skipped, reason: "not asked for"}
			ginkgo.Skip(out.reason)
		}
		if ctx.Err() != nil {
			ginkgo.Skip("the run was ended")
		}
		if missing := e.Cluster.missing(c.Needs); missing != "" {
			*out = result{outcome: report.NotSupported, reason: "the cluster has no " + missing}
			e.progress(c, out)
			ginkgo.Skip(out.reason)
		}
		*out = e.run(ctx, c)
		e.progress(c, out)
		if out.outcome != report.Passed {
			ginkgo.Fail(fmt.Sprintf("%s: %s", out.outcome, out.reason))
		}
	})
}

func (e *Engine) progress(c *Case, out *result) {
	if e.Progress == nil {
		return
	}
	line := fmt.Sprintf("%-12s %-34s %6.2f s", out.outcome, c.ID, out.seconds)
	if out.outcome != report.Passed {
		first, _, _ := strings.Cut(strings.TrimSpace(out.reason), "\n")
		line += "  " + first
	}
	fmt.Fprintln(e.Progress, line)
}

func (c *Cluster) missing(needs []Feature) string {
	for _, need := range needs {
		if !c.Features[need] {
			return string(need)
		}
	}
	return ""
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
	t := &T{Cluster: e.Cluster, abort: func(message string) { panic(failure{message}) }}
	t.Gomega = gomega.NewGomega(func(message string, _ ...int) { t.abort(message) })

	recorder, err := e.prepare(caseCtx, c, t)
	if err != nil {
		out = result{outcome: report.Faulty, reason: err.Error()}
	} else {
		out = play(caseCtx, c, t)
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
	if e.Cluster.Features[HasControllers] {
		if err := e.waitServiceAccount(ctx, t.Namespace); err != nil {
			return nil, err
		}
	}
	if !c.Score {
		return nil, nil
	}
	return score.Record(ctx, e.Cluster.Client, t.Namespace, Manager)
}

// waitServiceAccount waits until pods can be created: admission wants their service account.
func (e *Engine) waitServiceAccount(ctx context.Context, namespace string) error {
	for {
		_, err := e.Cluster.Client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("namespace %s has no service account: %w", namespace, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func play(ctx context.Context, c *Case, t *T) (out result) {
	defer func() {
		switch r := recover().(type) {
		case nil:
			out = result{outcome: report.Passed}
		case failure:
			out = result{outcome: report.Failed, reason: r.message}
			if t.fault != nil {
				out = result{outcome: report.Faulty, reason: t.fault.Error()}
			}
		default:
			out = result{outcome: report.Faulty, reason: fmt.Sprintf("panic: %v", r)}
		}
	}()
	c.Run(ctx, t)
	return
}

// tidy removes what the case left. Its errors are not the case's: a namespace that can't be deleted has a case of its own.
func (e *Engine) tidy(ctx context.Context, t *T) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i](ctx)
	}
	if t.Namespace != "" {
		_ = e.Cluster.Client.CoreV1().Namespaces().Delete(ctx, t.Namespace, metav1.DeleteOptions{})
	}
}

func (c *Case) report(r result) report.Case {
	out := report.Case{
		ID: c.ID, Component: string(c.Component), Requirement: c.Requirement, Reference: c.Reference, Since: c.Since,
		Outcome: r.outcome, Reason: r.reason, Seconds: r.seconds, Score: r.score,
	}
	for _, need := range c.Needs {
		out.Needs = append(out.Needs, string(need))
	}
	return out
}
