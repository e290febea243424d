package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/score"
)

// recorded is a cluster in this process, by its kubeconfig file and client configuration.
func recorded(t *testing.T) (string, *rest.Config) {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.InProcess(), cluster.WithNodes(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, c.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, c.RESTConfig()
}

// TestScoreOfACommand: the command finds the cluster, its exit code is kept, and the score is written in each form.
func TestScoreOfACommand(t *testing.T) {
	kubeconfig, config := recorded(t)
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "s.json"), filepath.Join(dir, "s.html")}
	var out, notes bytes.Buffer
	a := &app{out: &out, err: &notes}
	flags := scoreFlags{kubeconfig: kubeconfig, files: files, limit: 100, settle: 10 * time.Millisecond}
	var exit exitError
	if err := a.runRecorded(t.Context(), flags, config, []string{"sh", "-c", "echo $KUBECONFIG; exit 4"}); !errors.As(err,
		&exit) ||
		exit != 4 {
		t.Errorf("the exit code: %v", err)
	}
	if strings.TrimSpace(out.String()) != kubeconfig || !strings.Contains(notes.String(), "quintet score: ") {
		t.Errorf("the command printed %s, and the notes are %s", out.String(), notes.String())
	}
	if s, err := score.Load(files[0]); err != nil || s.Ended.Before(s.Started) || len(s.Unwatched) > 0 {
		t.Errorf("the score is %+v, %v", s, err)
	}
	if page, err := os.ReadFile(files[1]); err != nil || !bytes.Contains(page, []byte("<!DOCTYPE html>")) {
		t.Errorf("the page: %v", err)
	}
	out.Reset()
	if code := a.execute(t.Context(), []string{"score", "compare", files[0], files[0]}); code != 0 ||
		!strings.HasPrefix(out.String(), "0 of ") {
		t.Errorf("a score and itself: %d, %s", code, out.String())
	}
}

func TestScoreFlagsNameWhatIsWrong(t *testing.T) {
	for want, args := range map[string][]string{
		"--output":     {"score", "-o", "x.txt", "--", "true"},
		"--port":       {"watch", "--port", "1"},
		"from 0 to":    {"watch", "--web", "--port", "70000"},
		"--settle -1s": {"score", "--settle", "-1s", "--", "true"},
		"x.html is a page; compare takes the .json": {"score", "compare", "a.json", "x.html"},
		"--limit":      {"watch", "--limit", "0"},
		"missing.json": {"score", "compare", "missing.json", "missing.json"},
	} {
		var notes bytes.Buffer
		a := &app{out: io.Discard, err: &notes, state: state{t.TempDir()}}
		if code := a.execute(t.Context(), args); code == 0 || !strings.Contains(notes.String(), want) {
			t.Errorf("%v: %d, %s", args, code, notes.String())
		}
	}
}

// TestWatchServesAPage until it is interrupted.
func TestWatchServesAPage(t *testing.T) {
	kubeconfig, _ := recorded(t)
	reader, writer := io.Pipe()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var notes bytes.Buffer
	a := &app{out: writer, err: &notes}
	ended := make(chan int, 1)
	go func() { ended <- a.execute(ctx, []string{"watch", "--web", "--kubeconfig", kubeconfig}) }()
	var url string
	if _, err := fmt.Fscanln(reader, &url); err != nil {
		t.Fatal(err)
	}
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil || answer.StatusCode != http.StatusOK || !bytes.Contains(page, []byte(`data-live="events"`)) {
		t.Errorf("%s, %v: %s", answer.Status, err, page)
	}
	interrupt()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d: %s", code, notes.String())
	}
	if _, err := http.Get(url); err == nil {
		t.Error("the page is still served")
	}
}
