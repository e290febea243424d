package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// pretended is an engine's API as far as making and starting containers goes.
type pretended struct {
	start func(score int) error // of a container with this OOM score
	made  []*container.HostConfig
	// removed counts containers
	removed int
}

func (p *pretended) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Api-Version", "1.45")
	w.Header().Set("Content-Type", "application/json")
	path := r.URL.Path
	switch {
	case strings.HasSuffix(path, "/containers/create"):
		var body struct{ HostConfig *container.HostConfig }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			panic(err)
		}
		p.made = append(p.made, body.HostConfig)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"Id":"c%d"}`, len(p.made)-1)
	case strings.HasSuffix(path, "/start"):
		var i int
		if _, err := fmt.Sscanf(path[strings.Index(path, "/containers/"):], "/containers/c%d/start", &i); err != nil {
			panic(err)
		}
		if err := p.start(p.made[i].OomScoreAdj); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintf(w, `{"message":%q}`, err.Error())
			return
		}
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodDelete:
		p.removed++
		w.WriteHeader(http.StatusNoContent)
	default: // ping and info
		fmt.Fprint(w, "{}")
	}
}

// pretend connects to a pretended engine; what start says becomes of each start.
func pretend(t *testing.T, start func(score int) error) (*Engine, *pretended) {
	t.Helper()
	api := &pretended{start: start}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	e, err := New(t.Context(), Options{Endpoint: "tcp://" + server.Listener.Addr().String(), Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	e.noNegativeOOM.Store(false) // whatever this process may do
	return e, api
}

// The engine takes a start whose client goes away for one that failed, and a pod that isn't restarted would fail with
// it.
func TestStartIsNotGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e, _ := pretend(t, func(int) error {
		cancel()
		return nil
	})
	id, err := e.CreateContainer(ctx, &runtime.ContainerSpec{ImageID: "i"})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(ctx, id); err != nil {
		t.Errorf("a start that was under way: %v", err)
	}
	if err := e.Start(ctx, id); !errors.Is(err, context.Canceled) {
		t.Errorf("a start after the end: %v", err)
	}
}

// A sandbox is not removed while the engine starts it: its pod, which continues, would need another at once.
func TestSandboxIsNotGivenUp(t *testing.T) {
	for name, answer := range map[string]error{"started": nil, "failed": errors.New("too late")} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			e, api := pretend(t, func(int) error {
				cancel()
				return answer
			})
			id, err := e.CreateSandbox(ctx, &runtime.SandboxSpec{Image: "i"})
			if (err == nil) != (answer == nil) || (id != "") != (answer == nil) {
				t.Errorf("got %q, %v", id, err)
			}
			if api.removed > 0 || len(api.made) != 1 {
				t.Errorf("%d made, %d removed", len(api.made), api.removed)
			}
		})
	}
}

// A machine that forbids to protect a sandbox forbids it for the containers that are made while the sandbox starts,
// too.
func TestContainersMadeMeanwhileKnowWhatTheSandboxLearnt(t *testing.T) {
	for name, forbids := range map[string]func(score int) error{
		"protection": func(score int) error {
			if score < 0 {
				return errors.New("permission denied")
			}
			return nil
		},
		"anything": func(int) error { return errors.New("no space left on device") },
	} {
		t.Run(name, func(t *testing.T) {
			e, api := pretend(t, forbids)
			var last string
			_, err := e.CreateSandbox(t.Context(), &runtime.SandboxSpec{Image: "i", Created: func(sandbox string) {
				id, err := e.CreateContainer(t.Context(),
					&runtime.ContainerSpec{ImageID: "i", SandboxID: sandbox, OOMScoreAdjust: -997})
				if err != nil {
					t.Error(err)
				}
				last = id
			}})
			learnt := name == "protection"
			if (err == nil) != learnt || e.noNegativeOOM.Load() != learnt {
				t.Errorf("sandbox: %v, lesson kept: %v", err, e.noNegativeOOM.Load())
			}
			if score := api.made[len(api.made)-1].OomScoreAdj; score != 0 {
				t.Errorf("the second container asks for the score %d", score)
			}
			if err := e.Start(t.Context(), last); (err == nil) != learnt {
				t.Errorf("start: %v", err)
			}
		})
	}
}

func TestTranslateFailedStarts(t *testing.T) {
	for failure, want := range map[string]runtime.Container{
		"":                          {State: runtime.Created},
		"exec: \"x\": no such file": {State: runtime.Exited, StartErr: "exec: \"x\": no such file", ExitCode: 128},
		"context canceled: unknown": {State: runtime.Created}, // the kubelet went away; the next one starts it
	} {
		got := translate(&container.InspectResponse{
			Config: &container.Config{}, State: &container.State{Status: container.StateCreated, Error: failure},
		})
		if got.State != want.State || got.StartErr != want.StartErr || got.ExitCode != want.ExitCode {
			t.Errorf("%q: got %+v", failure, got)
		}
	}
}
