package cluster

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// script writes a shell script as a program file.
func script(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestProgramFile: a file has the component's arguments and the member's directory, its output is the log, and it is
// asked to end.
func TestProgramFile(t *testing.T) {
	file := script(t, `trap 'echo asked to end; exit 0' TERM; echo "in $PWD: $*"; while :; do sleep 0.02; done`)
	c, client := started(t, WithProgram(Scheduler, ProgramFile(file)))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	createPod(ctx, t, client, "waiting")
	m := c.Component(Scheduler).Members[0]
	logs := func() string {
		var log bytes.Buffer
		if err := m.Logs(ctx, false, &log); err != nil {
			t.Fatal(err)
		}
		return log.String()
	}
	if err := until(ctx, func(context.Context) error {
		if !strings.Contains(logs(), "scheduler-0: ") {
			return context.DeadlineExceeded
		}
		return nil
	}); err != nil || !strings.Contains(logs(), "--kubeconfig=") {
		t.Fatalf("%v: %s", err, logs())
	}
	if err := m.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(logs(), "asked to end") {
		t.Errorf("after the stop: %s", logs())
	}
	phase(ctx, t, client, "waiting", corev1.PodPending)
}

func TestProgramFileThatEnds(t *testing.T) {
	var log bytes.Buffer
	env := Env{Args: []string{"three"}, Dir: t.TempDir(), Log: &log}
	err := ProgramFile(script(t, `echo "$1"; exit 3`))(t.Context(), env)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || log.String() != "three\n" {
		t.Errorf("%v, log %q", err, log.String())
	}
	if err := ProgramFile("none")(t.Context(), env); err == nil {
		t.Error("a file that is missing runs")
	}
}
