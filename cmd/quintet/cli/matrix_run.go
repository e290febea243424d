package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/conformance/matrix"
	"quintet.dev/quintet/conformance/report"
)

// removeTimeout bounds the removal of a cell's cluster, by its process and after it.
const removeTimeout = 2 * time.Minute

// matrixRun runs the cells of a matrix, each in a process of its own.
type matrixRun struct {
	app    *app
	name   string // that of the cells' clusters begins with
	dir    string // of reports
	images *swapImages
	flags  []string // of all cells

	inProcess bool // clusters are their cells' processes

	mu sync.Mutex // of the app's streams
}

// all runs the base, and then the others, some at once. Cells that ctx's end left no time for are in the result, too.
// Unless the user claimed profiles, the others claim those whose core features the base has.
func (r *matrixRun) all(ctx context.Context, plans []matrix.Plan, parallel int, claimed bool) []matrix.Run {
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return []matrix.Run{{Plan: plans[0], Reason: err.Error()}}
	}
	runs := make([]matrix.Run, len(plans))
	runs[0] = r.cell(ctx, 0, plans[0])
	if base := runs[0].Report; base != nil && !claimed {
		for _, p := range base.Profiles {
			if len(p.MissingCore) == 0 {
				r.flags = append(r.flags, "--profile="+p.Name)
			}
		}
	}
	var others errgroup.Group
	others.SetLimit(parallel)
	for i := 1; i < len(plans); i++ {
		others.Go(func() error {
			runs[i] = r.cell(ctx, i, plans[i])
			return nil
		})
	}
	_ = others.Wait() // what went wrong with a cell is its result
	return runs
}

// cell runs a cell and returns what it came to.
func (r *matrixRun) cell(ctx context.Context, i int, plan matrix.Plan) matrix.Run {
	began := time.Now()
	run := matrix.Run{Plan: plan, Dir: "cell-" + strconv.Itoa(i)}
	if ctx.Err() != nil {
		run.Reason = "the matrix was interrupted before"
		return run
	}
	r.say("cell %d: %s\n", i, plan.Name)
	verdict, err := r.process(ctx, i, plan, filepath.Join(r.dir, run.Dir))
	run.Seconds = time.Since(began).Seconds()
	run.Report, run.Reason = verdict.report, verdict.Reason
	switch {
	case ctx.Err() != nil && run.Report == nil:
		run.Reason = "the matrix was interrupted"
	case err != nil:
		run.Reason = joinReasons(run.Reason, err.Error())
	}
	if run.Report == nil {
		r.say("cell %d: no report after %.1f s: %s\n", i, run.Seconds, run.Reason)
		return run
	}
	totals := run.Report.Totals()
	r.say("cell %d: %s after %.1f s: %d passed, %d failed, %d inconclusive\n", i, run.Report.Result(), run.Seconds,
		totals[report.Passed]+totals[report.Flaky], totals[report.Failed], totals[report.Inconclusive])
	return run
}

func (r *matrixRun) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.app.err, format, args...)
}

// cellVerdict is what a cell's process prints.
type cellVerdict struct {
	Reason string `json:"reason,omitempty"` // what was not right with the cluster

	report *report.Report
}

// process runs a cell's process, and removes what one that died left behind.
func (r *matrixRun) process(ctx context.Context, i int, plan matrix.Plan, dir string) (out cellVerdict, err error) {
	if err := freshDir(dir); err != nil {
		return out, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return out, err
	}
	defer log.Close()
	name := fmt.Sprintf("%s-%d", r.name, i)
	var stdout bytes.Buffer
	ended := r.start(ctx, name, plan, dir, &stdout, log)
	if !r.inProcess {
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
		defer cancel()
		err = cluster.Remove(cleaning, name) // there is one only if the process died
	}
	if ended != nil {
		err = errors.Join(fmt.Errorf("%w: %s", ended, lastLine(filepath.Join(dir, "log"))), err)
	}
	if unmarshalled := json.Unmarshal(stdout.Bytes(), &out); unmarshalled != nil && ended == nil {
		err = errors.Join(err, fmt.Errorf("the cell's process: %w", unmarshalled))
	}
	if made, missing := readReport(filepath.Join(dir, "report.json")); missing == nil {
		out.report = made
	} else if out.Reason == "" {
		err = errors.Join(err, missing)
	}
	return out, err
}

// start runs a cell's process to its end. It is told to end by the end of its input, so that it ends with this process,
// too, whatever happens to that; its group is its own, so that the terminal interrupts only this process.
func (r *matrixRun) start(ctx context.Context, name string, plan matrix.Plan, dir string, stdout *bytes.Buffer,
	log *os.File) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := append([]string{"matrix", "cell", "--name=" + name, "--report=" + dir}, r.flags...)
	for _, swap := range plan.Swaps {
		if r.inProcess {
			args = append(args, "--program="+swap.Component+"="+swap.With)
		} else {
			args = append(args, "--image="+swap.Component+"="+r.images.of(swap))
		}
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stdout, cmd.Stderr = stdout, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.Cancel, cmd.WaitDelay = input.Close, removeTimeout
	return cmd.Run()
}

// freshDir makes an empty directory for a cell.
func freshDir(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.MkdirAll(dir, 0o755)
}

// lastLine is the last line of a file; a reason that a process gave.
func lastLine(file string) string {
	content, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return lines[len(lines)-1]
}

// swapImages are the images that swaps by program files run from.
type swapImages struct {
	cluster string
	refs    map[matrix.Swap]string
}

// prepare makes an image for each program file.
func (s *swapImages) prepare(ctx context.Context, plans []matrix.Plan) error {
	s.refs = map[matrix.Swap]string{}
	for _, plan := range plans {
		for _, swap := range plan.Swaps {
			if _, made := s.refs[swap]; made || !isFile(swap.With) {
				continue
			}
			ref := fmt.Sprintf("quintet-%s/%s:%d", s.cluster, swap.Component, len(s.refs))
			if err := cluster.PackProgram(ctx, cluster.Component(swap.Component), swap.With, ref); err != nil {
				return fmt.Errorf("--swap %s=%s: %w", swap.Component, swap.With, err)
			}
			s.refs[swap] = ref
		}
	}
	return nil
}

// of is the image that a swap runs from.
func (s *swapImages) of(swap matrix.Swap) string {
	if ref, made := s.refs[swap]; made {
		return ref
	}
	return swap.With
}

// remove removes the images that prepare made.
func (s *swapImages) remove(ctx context.Context) error {
	var errs []error
	for _, ref := range s.refs {
		errs = append(errs, cluster.RemoveProgram(ctx, ref))
	}
	return errors.Join(errs...)
}
