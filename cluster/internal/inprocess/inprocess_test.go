package inprocess

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"quintet.dev/quintet/cluster/internal/backend"
	"quintet.dev/quintet/cluster/internal/backendtest"
)

func serve(ctx context.Context, p Process) error {
	fmt.Fprintln(p.Log, "serving")
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(p.Listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func TestContract(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	backendtest.Run(t, backendtest.Subject{
		Backend: New(Config{Cluster: "contract", Programs: map[string]Program{"server": serve}}),
		Server: func(_ backend.Addressing, name string) backend.Member {
			return backend.Member{Name: name, Program: "server"}
		},
		Wordless: true,
	})
}

func TestProgramThatFailsIsSeen(t *testing.T) {
	b := New(Config{Cluster: "failing", Programs: map[string]Program{
		"broken": func(context.Context, Process) error { return errors.New("no such flag") },
	}})
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	if _, err := b.Prepare(t.Context(), []backend.Placement{{Name: "broken-0"}}); err != nil {
		t.Fatal(err)
	}
	i, err := b.Start(t.Context(), backend.Member{Name: "broken-0", Program: "broken"})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	if err := i.Logs(t.Context(), true, &log); err != nil {
		t.Fatal(err)
	}
	state, err := i.State(t.Context())
	if err != nil || state.Running || state.ExitCode != 1 || !strings.Contains(log.String(), "no such flag") {
		t.Errorf("state %+v, log %q, %v", state, log.String(), err)
	}
}
