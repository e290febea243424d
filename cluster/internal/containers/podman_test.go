package containers

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// TestPodmanVersion: what Podman 4.3.1 answers is told from what Docker answers.
func TestPodmanVersion(t *testing.T) {
	for answer, want := range map[string]string{
		`{"Components":[{"Name":"Podman Engine","Version":"4.3.1"},{"Name":"OCI Runtime (crun)","Version":"crun 1.8.1"}],
			"Version":"4.3.1","ApiVersion":"1.41"}`: "4.3.1",
		`{"Components":[{"Name":"Engine","Version":"26.1.5"}],"Version":"26.1.5","ApiVersion":"1.45"}`: "",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(answer))
		}))
		defer server.Close()
		docker, err := client.New(client.WithHost(strings.Replace(server.URL, "http", "tcp", 1)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := podmanVersion(t.Context(), &testcontainers.DockerClient{Client: docker})
		if err != nil || got != want {
			t.Errorf("%s: %q, %v", answer, got, err)
		}
	}
}

func TestPodmanDiffers(t *testing.T) {
	docker, podman := &Containers{}, &Containers{podman: "4.3.1"}
	var host container.HostConfig
	docker.unmask(&host)
	if host.MaskedPaths == nil || host.ReadonlyPaths == nil || len(host.SecurityOpt) > 0 {
		t.Errorf("Docker: %+v", host)
	}
	host = container.HostConfig{SecurityOpt: []string{"seccomp=unconfined"}}
	podman.unmask(&host)
	if host.MaskedPaths != nil || !slices.Contains(host.SecurityOpt, "unmask=ALL") || len(host.SecurityOpt) != 2 {
		t.Errorf("Podman: %+v", host)
	}
	for c, want := range map[*Containers]int{docker: 0, podman: 1} {
		var limited container.HostConfig
		privileges{}.apply(&limited)
		if c.allowConsole(&limited); len(limited.Devices) != want {
			t.Errorf("devices of a node on %q: %+v", c.podman, limited.Devices)
		}
	}
	for text, want := range map[string]bool{
		"container 1 has dependent containers which must be removed before it": true,
		"removal in progress": false,
	} {
		if hasDependents(errors.New(text)) != want {
			t.Errorf("%s: dependents: %t", text, !want)
		}
	}
	err := errors.New("crun: setrlimit `RLIMIT_NOFILE`: Operation not permitted")
	if got := docker.explain(err); got != err {
		t.Errorf("Docker: %v", got)
	}
	if got := podman.explain(err); !errors.Is(got, err) || !strings.Contains(got.Error(), "default_ulimits") {
		t.Errorf("Podman: %v", got)
	}
}
