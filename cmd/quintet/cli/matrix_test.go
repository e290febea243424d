package cli

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"quintet.dev/quintet/conformance/report"
)

// TestCellArguments: a cell's process gets the flags that it shares with the matrix, as they were given, and no others.
func TestCellArguments(t *testing.T) {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	var f matrixFlags
	f.bind(fs)
	fs.StringArrayVar(&f.swaps, "swap", nil, "")
	fs.StringVar(&f.report, "report", "", "")
	if err := fs.Parse([]string{"--nodes", "2", "--swap", "node=x", "--report", "dir", "--args", "a=--b=c,d",
		"--args", "a=--e", "--profile", "node,network", "--filter", "^x$"}); err != nil {
		t.Fatal(err)
	}
	got := cellArguments(fs)
	want := []string{"--args=a=--b=c,d", "--args=a=--e", "--filter=^x$", "--nodes=2", "--profile=node",
		"--profile=network"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	var cell cellFlags
	again := pflag.NewFlagSet("", pflag.ContinueOnError)
	cell.bind(again)
	if err := again.Parse(got); err != nil || cell.up.nodes != 2 ||
		!slices.Equal(cell.up.args, []string{"a=--b=c,d", "a=--e"}) ||
		!slices.Equal(cell.suite.profiles, []string{"node", "network"}) {
		t.Errorf("%v: the cell reads %+v", err, cell)
	}
}

func TestMatrixRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"nothing to swap":     {nil, "--swap"},
		"no component":        {[]string{"--swap", "mine:dev"}, `--swap "mine:dev"`},
		"no such component":   {[]string{"--swap", "kube-shceduler=x"}, `no component "kube-shceduler"`},
		"an unknown profile":  {[]string{"--swap", "node=x", "--profile", "all"}, `unknown profile "all"`},
		"no such case":        {[]string{"--swap", "node=x", "--filter", "^none$"}, `filter "^none$"`},
		"no case at once":     {[]string{"--swap", "node=x", "--case-parallel", "0"}, "--case-parallel 0"},
		"no such flag":        {[]string{"--swaps", "node=x"}, "did you mean --swap?"},
		"no cell at once":     {[]string{"--swap", "node=x", "--parallel", "0"}, "--parallel 0"},
		"an image in process": {[]string{"--in-process", "--swap", "node=x:1"}, "no file x:1"},
		"twice the same":      {[]string{"--swap", "node=x", "--swap", "node=x"}, "given twice"},
	} {
		code, _, err := run(t.Context(), t.TempDir(), append([]string{"matrix"}, test.args...)...)
		if code != exitNoVerdict || !strings.Contains(err.String(), test.want) {
			t.Errorf("%s: %d, %s, want %q", name, code, err, test.want)
		}
	}
}

// TestConformanceRefuses: flags and arguments that can't be meant give no verdict, whatever else is given.
func TestConformanceRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--filter [":            "filter: error parsing regexp",
		"--filter ^nothing$":    `filter "^nothing$": no case`,
		"--list --filter [":     "filter: error parsing regexp",
		"--profile foo":         `unknown profile "foo"`,
		"--features foo":        `--features: unknown feature "foo"`,
		"--parallel -1":         "--parallel -1: at least 1",
		"--parallel 0":          "--parallel 0: at least 1",
		"--parallel x":          `--parallel "x": want a whole number`,
		"--case-timeout -1s":    "--case-timeout -1s: it may not be negative",
		"--profiles full":       "unknown flag: --profiles; did you mean --profile? see quintet conformance --help",
		"extra":                 `want no argument, got "extra"`,
		"--rerun nope.json":     "nope.json",
		"--kubeconfig not.conf": "not.conf",
	} {
		code, _, err := run(t.Context(), t.TempDir(), append([]string{"conformance"}, strings.Fields(args)...)...)
		if code != exitNoVerdict || strings.Count(err.String(), "quintet: ") != 1 ||
			!strings.Contains(err.String(), want) {
			t.Errorf("%s: %d, %s, want %q", args, code, err, want)
		}
	}
}

func TestConformanceWithoutVerdict(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	for _, args := range [][]string{{"--kubeconfig", missing}, {"--rerun", missing}} {
		code, _, err := run(t.Context(), t.TempDir(), append([]string{"conformance"}, args...)...)
		if code != exitNoVerdict || !strings.Contains(err.String(), missing) {
			t.Errorf("%v: %d, %s", args, code, err)
		}
	}
}

func TestListedCases(t *testing.T) {
	code, out, err := run(t.Context(), t.TempDir(), "conformance", "--list", "--profile", "scheduler", "--filter", "/fit$",
		"--output", "json")
	if code != 0 || !strings.Contains(out.String(), `"scheduler": "core"`) || strings.Contains(out.String(), "api/crud") {
		t.Errorf("%d, %s, %s", code, out, err)
	}
}

func TestReportCompare(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, change func(*report.Report)) string {
		r := &report.Report{APIVersion: report.APIVersion, Kind: report.Kind,
			Cases: []report.Case{{ID: "a/b", Outcome: report.Passed}}}
		change(r)
		file := filepath.Join(dir, name)
		if err := report.WriteFile(file, r.WriteJSON); err != nil {
			t.Fatal(err)
		}
		return file
	}
	before := write("before", func(*report.Report) {})
	for name, test := range map[string]struct {
		change func(*report.Report)
		code   int
		want   string
	}{
		"same":  {func(*report.Report) {}, 0, "No outcome differs"},
		"worse": {func(r *report.Report) { r.Cases[0].Outcome = report.Inconclusive }, 1, "Passed -> Inconclusive"},
		"other": {func(r *report.Report) { r.Suite.Filter = "x" }, 2, "not comparable"},
	} {
		page := filepath.Join(dir, name+".html")
		code, out, err := run(t.Context(), dir, "report", "compare", before, write(name, test.change), "--html", page)
		if code != test.code || !strings.Contains(out.String(), test.want) {
			t.Errorf("%s: %d, %s%s, want %d, %q", name, code, out, err, test.code, test.want)
		}
		if _, err := os.Stat(page); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCellInProcess: a scheduler that ends does not end its cell, which says why it ended.
func TestCellInProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scheduler")
	if err := os.WriteFile(file, []byte("#!/bin/sh\necho no plug-ins >&2\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	verdict, made, dir := ranCell(t, "--program=kube-scheduler="+file, "--profile=scheduler",
		"--filter=^(api/crud|scheduling/node-selector)$")
	if got := outcomes(made); got != "scheduling/node-selector=Failed" {
		t.Errorf("with a scheduler that ends: %s", got)
	}
	for _, want := range []string{"scheduler-0 ended by itself", "exit status 3", "no plug-ins"} {
		if !strings.Contains(verdict.Reason, want) {
			t.Errorf("reason %q, want %q", verdict.Reason, want)
		}
	}
	if log, err := os.ReadFile(filepath.Join(dir, "scheduler-0.log")); err != nil || string(log) != "no plug-ins\n" {
		t.Errorf("its log: %q, %v", log, err)
	}
	verdict, made, _ = ranCell(t, "--filter=^(api/crud|scheduling/node-selector)$")
	if got := outcomes(made); got != "api/crud=Passed scheduling/node-selector=Passed" || verdict.Reason != "" {
		t.Errorf("with nothing swapped: %s, %s", got, verdict.Reason)
	}
}

// ranCell runs a cell in process.
func ranCell(t *testing.T, flags ...string) (verdict cellVerdict, made *report.Report, dir string) {
	t.Helper()
	dir = t.TempDir()
	in, end := io.Pipe()
	defer end.Close()
	var out, log safeBuffer
	a := &app{out: &out, err: &log, in: in, state: state{t.TempDir()}}
	args := append([]string{"matrix", "cell", "--in-process", "--name=cell", "--report=" + dir}, flags...)
	if code := a.execute(t.Context(), args); code != 0 {
		t.Fatalf("%d: %s", code, log.String())
	}
	if err := json.Unmarshal([]byte(out.String()), &verdict); err != nil {
		t.Fatal(err)
	}
	made, err := readReport(filepath.Join(dir, "report.json"))
	if err != nil {
		t.Fatalf("%v; the verdict: %+v; %s", err, verdict, log.String())
	}
	return verdict, made, dir
}

// outcomes are those of the cases that ran.
func outcomes(r *report.Report) string {
	var out []string
	for _, c := range r.Cases {
		if c.Outcome != report.Skipped {
			out = append(out, c.ID+"="+string(c.Outcome))
		}
	}
	return strings.Join(out, " ")
}
