// Package backendtest is the contract that every back end passes.
package backendtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"quintet.dev/quintet/cluster/internal/backend"
)

// Subject is a back end under test.
type Subject struct {
	Backend backend.Backend
	// Server makes a member that serves HTTP on its usual port 8080: "/" answers 200, and its log begins with
	// "serving".
	Server func(addressing backend.Addressing, name string) backend.Member
	// Wordless is set for a back end that can neither pause its members nor run commands in them.
	Wordless bool
}

const waitTimeout = 30 * time.Second

// Run checks the contract.
func Run(t *testing.T, s Subject) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	t.Cleanup(func() {
		if err := s.Backend.Close(context.Background()); err != nil {
			t.Errorf("Close again: %v", err)
		}
	})
	addressing, err := s.Backend.Prepare(ctx, []backend.Placement{{Name: "server-0", Port: 8080},
		{Name: "server-1", Port: 8080}})
	if err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	if addressing.Endpoint("server-0", 8080) == addressing.Endpoint("server-1", 8080) {
		t.Errorf("two members share the endpoint %s", addressing.Endpoint("server-0", 8080))
	}
	url := "http://" + addressing.Endpoint("server-0", 8080)
	member := s.Server(addressing, "server-0")
	member.Files = map[string][]byte{"pki/note.txt": []byte("hello")}
	instance, err := s.Backend.Start(ctx, member)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	answers(t, url, true)
	running(t, instance, true)

	t.Run("files and logs", func(t *testing.T) {
		content, err := instance.ReadFile(ctx, "pki/note.txt")
		if err != nil || string(content) != "hello" {
			t.Errorf("ReadFile: %q, %v", content, err)
		}
		if err := instance.WriteFile(ctx, "other/new.txt", []byte("new")); err != nil {
			t.Errorf("WriteFile: %v", err)
		}
		if content, err := instance.ReadFile(ctx, "other/new.txt"); err != nil || string(content) != "new" {
			t.Errorf("ReadFile of what was written: %q, %v", content, err)
		}
		var log bytes.Buffer
		if err := instance.Logs(ctx, false, &log); err != nil || !strings.HasPrefix(log.String(), "serving") {
			t.Errorf("Logs: %q, %v", log.String(), err)
		}
	})
	t.Run("stop and kill, then start at the same place", func(t *testing.T) {
		for name, end := range map[string]func() error{
			"stop": func() error { return instance.Stop(ctx, 5*time.Second) },
			"kill": func() error { return instance.Kill(ctx) },
		} {
			if err := end(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			running(t, instance, false)
			answers(t, url, false)
			if err := instance.Start(ctx); err != nil {
				t.Fatalf("start after %s: %v", name, err)
			}
			answers(t, url, true)
		}
	})
	t.Run("pause and exec", func(t *testing.T) { speaks(ctx, t, s, instance, url) })
	t.Run("close ends members", func(t *testing.T) {
		if err := s.Backend.Close(ctx); err != nil {
			t.Fatalf("Close: %v", err)
		}
		answers(t, url, false)
	})
}

func speaks(ctx context.Context, t *testing.T, s Subject, instance backend.Instance, url string) {
	if s.Wordless {
		if err := instance.Pause(ctx); !errors.Is(err, backend.ErrUnsupported) {
			t.Errorf("Pause: %v, want ErrUnsupported", err)
		}
		if _, err := instance.Exec(ctx, []string{"x"}, nil); !errors.Is(err, backend.ErrUnsupported) {
			t.Errorf("Exec: %v, want ErrUnsupported", err)
		}
		return
	}
	if err := instance.Pause(ctx); err != nil {
		t.Fatalf("Pause: %v", err)
	}
	if state, err := instance.State(ctx); err != nil || !state.Paused {
		t.Errorf("paused: %+v, %v", state, err)
	}
	if err := instance.Unpause(ctx); err != nil {
		t.Fatalf("Unpause: %v", err)
	}
	answers(t, url, true)
	result, err := instance.Exec(ctx, []string{"testimage", "cat", "then", "exit", "3"}, strings.NewReader("in"))
	if err != nil || result.Code != 3 || string(result.Stdout) != "in" {
		t.Errorf("Exec: %+v, %v", result, err)
	}
}

func running(t *testing.T, instance backend.Instance, want bool) {
	t.Helper()
	eventually(t, func() error {
		state, err := instance.State(t.Context())
		if err == nil && state.Running != want {
			err = fmt.Errorf("running is %v, want %v", state.Running, want)
		}
		return err
	})
}

func answers(t *testing.T, url string, want bool) {
	t.Helper()
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	eventually(t, func() error {
		response, err := client.Get(url)
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
		if (err == nil) != want {
			return fmt.Errorf("GET %s: answered is %v, want %v: %w", url, err == nil, want, err)
		}
		return nil
	})
}

func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(waitTimeout)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
