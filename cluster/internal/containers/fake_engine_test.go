package containers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"quintet.dev/quintet/cluster/internal/backend"
	"quintet.dev/quintet/cluster/owner"
)

// fakeEngine answers calls of Docker's API with what a test says, and records them.
type fakeEngine struct {
	mu      sync.Mutex
	calls   []string                        // method and path, without the version
	answers map[string]func() (int, string) // by the beginning of a call; the longest wins
}

var apiVersion = regexp.MustCompile(`^/v[0-9.]+`)

func (e *fakeEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := r.Method + " " + apiVersion.ReplaceAllString(r.URL.Path, "")
	if seconds := r.URL.Query().Get("t"); seconds != "" {
		call += " t=" + seconds
	}
	e.mu.Lock()
	e.calls = append(e.calls, call)
	e.mu.Unlock()
	code, body, longest := http.StatusNoContent, "", ""
	for begin := range e.answers {
		if strings.HasPrefix(call, begin) && len(begin) > len(longest) {
			longest = begin
		}
	}
	if answer := e.answers[longest]; answer != nil {
		code, body = answer()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body)
}

func says(code int, body string) func() (int, string) {
	return func() (int, string) { return code, body }
}

// inTurn gives one answer after the other, and the last one again and again.
func inTurn(answers ...func() (int, string)) func() (int, string) {
	return func() (int, string) {
		next := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		return next()
	}
}

func message(text string) string { return fmt.Sprintf("{%q: %q}", "message", text) }

func connectFake(t *testing.T, e *fakeEngine) *testcontainers.DockerClient {
	t.Helper()
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	docker, err := client.New(client.WithHost(strings.Replace(server.URL, "http", "tcp", 1)),
		client.WithAPIVersion("1.45"))
	if err != nil {
		t.Fatal(err)
	}
	return &testcontainers.DockerClient{Client: docker}
}

// TestVerbs: what an instance asks of the engine, by the state in which its container is.
func TestVerbs(t *testing.T) {
	const running, paused, stopped = `{"State": {"Running": true}}`, `{"State": {"Running": true, "Paused": true}}`,
		`{"State": {"ExitCode": 1}}`
	const patient = `{"State": {"Running": true}, "Config": {"StopTimeout": 90}}`
	pause := func(i *instance) error { return i.Pause(t.Context()) }
	unpause := func(i *instance) error { return i.Unpause(t.Context()) }
	stop := func(i *instance) error { return i.Stop(t.Context(), 30*time.Second) }
	for name, test := range map[string]struct {
		inspected string
		do        func(*instance) error
		call, err string
	}{
		"pause":                 {running, pause, "POST /containers/1/pause", ""},
		"pause, paused":         {paused, pause, "", ""},
		"pause, stopped":        {stopped, pause, "", "pause etcd-0: it does not run; start it first"},
		"unpause":               {paused, unpause, "POST /containers/1/unpause", ""},
		"unpause, running":      {running, unpause, "", ""},
		"unpause, stopped":      {stopped, unpause, "", "unpause etcd-0: it does not run; start it first"},
		"stop":                  {running, stop, "POST /containers/1/stop t=30", ""},
		"stop, with more grace": {patient, stop, "POST /containers/1/stop t=90", ""},
	} {
		engine := &fakeEngine{answers: map[string]func() (int, string){"GET /containers/1/json": says(200, test.inspected)}}
		err := test.do(&instance{docker: connectFake(t, engine), name: "etcd-0", id: "1"})
		var writes []string
		for _, call := range engine.calls {
			if strings.HasPrefix(call, "POST") {
				writes = append(writes, call)
			}
		}
		if strings.Join(writes, ",") != test.call || err == nil != (test.err == "") ||
			err != nil && err.Error() != test.err {
			t.Errorf("%s: called %v, %v", name, writes, err)
		}
	}
}

// TestStateOfRemoved: a container that is gone is a member that does not run, and no error.
func TestStateOfRemoved(t *testing.T) {
	engine := &fakeEngine{answers: map[string]func() (int, string){
		"GET /containers/1/json":    says(404, message("No such container: 1")),
		"GET /containers/1/archive": says(404, message("Could not find the file")),
	}}
	i := &instance{docker: connectFake(t, engine), name: "etcd-0", id: "1"}
	if state, err := i.State(t.Context()); err != nil || state.Running || state.Error != "removed" {
		t.Errorf("%+v, %v", state, err)
	}
	if _, err := i.ReadFile(t.Context(), "x"); !errors.Is(err, backend.ErrNoFile) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, _, err := i.NetworkAddresses(t.Context()); err == nil {
		t.Error("a container that is gone has addresses")
	}
}

// TestRemove: what another remover was faster at is no error; a network is tried again while containers leave it, and
// a container after those that share its network.
func TestRemove(t *testing.T) {
	dependents := says(500, message("1 has dependent containers which must be removed before it"))
	gone := says(404, message("No such container"))
	busy := says(409, message("removal of container 1 is already in progress"))
	leaving := says(403, message("network n has active endpoints"))
	done, denied := says(204, ""), says(500, message("denied"))
	for name, test := range map[string]struct {
		first, network func() (int, string)
		calls          int // of the first container, and of the network
		fails          bool
	}{
		"all go":                    {done, done, 2, false},
		"gone":                      {gone, gone, 2, false},
		"being removed":             {busy, done, 2, false},
		"dependents":                {inTurn(dependents, done), done, 3, false},
		"containers leave late":     {done, inTurn(leaving, leaving, done), 4, false},
		"a network that may not go": {done, denied, 2, true},
		"one that may not go":       {denied, done, 1, true},
	} {
		engine := &fakeEngine{answers: map[string]func() (int, string){
			"GET /containers/json": says(200, `[{"Id": "1", "Labels": {}}, {"Id": "2", "Labels": {}}]`),
			"GET /networks":        says(200, `[{"Id": "n", "Name": "n"}]`),
			"DELETE /containers/1": test.first,
			"DELETE /networks/n":   test.network,
		}}
		err := remove(t.Context(), connectFake(t, engine), LabelCluster+"=c")
		calls := 0
		for _, call := range engine.calls {
			if call == "DELETE /containers/1" || call == "DELETE /networks/n" {
				calls++
			}
		}
		if (err != nil) != test.fails || calls != test.calls || !slices.Contains(engine.calls, "DELETE /containers/2") {
			t.Errorf("%s: %v, %d calls of %v", name, err, calls, engine.calls)
		}
	}
}

// TestDisconnectBeforeRemoval: containers leave their network one after the other, when all starts are over, and are
// removed after that; those that don't run are on none.
func TestDisconnectBeforeRemoval(t *testing.T) {
	const running = `{"Id": %q, "State": {"Running": true}, "NetworkSettings": {"Networks": {"c": {"NetworkID": "n"}}}}`
	engine := &fakeEngine{answers: map[string]func() (int, string){
		"GET /containers/json":   says(200, `[{"Id": "1"}, {"Id": "2"}, {"Id": "3"}]`),
		"GET /containers/1/json": says(200, fmt.Sprintf(running, "1")),
		"GET /containers/2/json": says(200, `{"Id": "2", "State": {"Running": false}}`),
		"GET /containers/3/json": says(200, fmt.Sprintf(running, "3")),
		"GET /networks":          says(200, `[{"Id": "n", "Name": "n"}]`),
	}}
	if err := remove(t.Context(), connectFake(t, engine), LabelCluster+"=c"); err != nil {
		t.Fatal(err)
	}
	calls := engine.calls[slices.Index(engine.calls, "GET /containers/1/json"):]
	slices.Sort(calls[5:8]) // the removals
	want := []string{"GET /containers/1/json", "GET /containers/2/json", "GET /containers/3/json",
		"POST /networks/n/disconnect", "POST /networks/n/disconnect",
		"DELETE /containers/1", "DELETE /containers/2", "DELETE /containers/3", "DELETE /networks/n"}
	if !slices.Equal(calls, want) {
		t.Errorf("called %v, want %v", calls, want)
	}
}

// TestMiscountedNetwork: a network that the engine keeps though it is empty holds up nothing else. A removal is an
// error, the end of a cluster tells of it, and the next start of the name goes on.
func TestMiscountedNetwork(t *testing.T) {
	engine := &fakeEngine{answers: map[string]func() (int, string){
		"GET /containers/json": says(200, fmt.Sprintf(`[{"Id": "claim", "Labels": {%q: "c", %q: "r"}}]`, LabelClaim,
			LabelRun)),
		"GET /networks":         says(200, `[{"Id": "kept", "Name": "quintet-c-1"}, {"Id": "other", "Name": "quintet-c-2"}]`),
		"GET /networks/kept":    says(200, `{"Id": "kept", "Containers": {}}`),
		"DELETE /networks/kept": says(403, message("network quintet-c-1 has active endpoints")),
	}}
	docker := connectFake(t, engine)
	err := remove(t.Context(), docker, LabelCluster+"=c")
	if !errors.Is(err, ErrMiscounted) || !strings.Contains(err.Error(), "remove network quintet-c-1") {
		t.Errorf("removed with %v", err)
	}
	for _, call := range []string{"DELETE /networks/other", "DELETE /containers/claim"} {
		if !slices.Contains(engine.calls, call) {
			t.Errorf("no %s in %v", call, engine.calls)
		}
	}
	if err := unused(t.Context(), docker, "c"); err != nil {
		t.Errorf("the name is blocked: %v", err)
	}
	var notices []string
	c := &Containers{docker: docker, config: Config{Cluster: "c", Run: "r", Notice: func(text string) {
		notices = append(notices, text)
	}}}
	if err := c.Close(t.Context()); err != nil || len(notices) != 1 {
		t.Errorf("closed with %v, notices %v", err, notices)
	}
}

// TestNetworkOfRun: the network of a cluster that another process started is that of the start which made its members.
func TestNetworkOfRun(t *testing.T) {
	engine := &fakeEngine{answers: map[string]func() (int, string){
		"GET /containers/json": says(200, fmt.Sprintf(`[{"Id": "claim", "Labels": {%q: "c", %q: "LATERLATER"}},
			{"Id": "1", "Labels": {%q: "ABCDEFGHIJ"}}]`, LabelClaim, LabelRun, LabelRun)),
		"GET /networks":                    says(200, `[]`),
		"GET /networks/quintet-c-abcdefgh": says(200, `{"Id": "n", "IPAM": {"Config": [{"Subnet": "10.213.4.0/24"}]}}`),
	}}
	c := &Containers{docker: connectFake(t, engine), config: Config{Cluster: "c"}}
	if found, made, err := c.inspectNetwork(t.Context()); err != nil || found.ID != "n" ||
		made.gateway().String() != "10.213.4.1" {
		t.Errorf("%+v, %+v, %v", found, made, err)
	}
	engine.answers["GET /containers/json"] = says(200, `[]`)
	if _, _, err := c.inspectNetwork(t.Context()); err == nil || err.Error() != "cluster c has no containers" {
		t.Errorf("without members: %v", err)
	}
}

// TestList: members are found by their labels, in order; those that joined by their own names, and claims are none.
func TestList(t *testing.T) {
	label := func(pairs ...string) string {
		labels := map[string]string{LabelCluster: "c"}
		for i := 0; i < len(pairs); i += 2 {
			labels[pairs[i]] = pairs[i+1]
		}
		text, _ := json.Marshal(labels)
		return string(text)
	}
	containers := `[{"Id": "2", "State": "running", "Labels": ` + label(LabelMember, "node-1") + `},
		{"Id": "1", "State": "exited", "Labels": ` + label(LabelMember, "etcd-0") + `},
		{"Id": "3", "Labels": ` + label(LabelClaim, "c") + `},
		{"Id": "4", "Labels": ` + label(LabelJoined, "true") + `},
		{"Id": "5", "Labels": ` + label(LabelJoined, "true") + `},
		{"Id": "6", "Labels": ` + label(LabelJoined, "true") + `}]`
	engine := &fakeEngine{answers: map[string]func() (int, string){
		"GET /containers/json":   says(200, containers),
		"GET /containers/4/json": says(200, `{"Config": {"Hostname": "host", "Env": ["A=b", "NODE_NAME=worker"]}}`),
		"GET /containers/5/json": says(200, `{"Config": {"Hostname": "HOST", "Env": ["NODE_NAME="]}}`),
		"GET /containers/6/json": says(404, message("No such container")),
		"GET /info":              says(200, `{}`),
		"GET /networks":          says(200, `[{"Name": "n", "Labels": {"`+LabelCluster+`": "another"}}]`),
	}}
	docker := connectFake(t, engine)
	for id, want := range map[string]string{"4": "worker", "5": "host", "6": ""} {
		if got, err := joinedName(t.Context(), docker, id); err != nil || got != want {
			t.Errorf("%s: %q, %v", id, got, err)
		}
	}
	found, err := find(t.Context(), docker, LabelCluster)
	if err != nil || len(found.members) != 5 || len(found.claims) != 1 || len(found.networks) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	if got := found.clusters(); !slices.Equal(got, []string{"another", "c"}) {
		t.Errorf("clusters %v", got)
	}
	kept := found.where(func(labels map[string]string) bool { return labels[LabelJoined]+labels[LabelClaim] != "" })
	if len(kept.members) != 3 || len(kept.claims) != 1 || len(kept.networks) != 0 {
		t.Errorf("kept %+v", kept)
	}
}

// TestReap: objects of processes that ended are removed, with all that an aborted start made; others stay.
func TestReap(t *testing.T) {
	self, err := owner.Self()
	if err != nil {
		t.Fatal(err)
	}
	dead := self + "0" // of the same number, started at another time
	for name, test := range map[string]struct {
		owner, claims string // owners of a member, and of a claim of the same run
		removed       []string
	}{
		"a user's":              {OwnerUser, self, nil},
		"of this process":       {self, self, nil},
		"of a dead one":         {dead, self, []string{"DELETE /containers/member"}},
		"claimed by a dead one": {OwnerUser, dead, []string{"DELETE /containers/claim", "DELETE /containers/member"}},
		"of another machine":    {"boot/ns/1/2", self, nil},
	} {
		engine := &fakeEngine{answers: map[string]func() (int, string){
			"GET /containers/json": says(200, fmt.Sprintf(`[{"Id": "member", "Labels": {%[1]q: "c", %[2]q: "r", %[3]q: %[4]q}},
				{"Id": "claim", "Labels": {%[1]q: "c", %[2]q: "r", %[3]q: %[5]q, %[6]q: "c"}}]`,
				LabelCluster, LabelRun, LabelOwner, test.owner, test.claims, LabelClaim)),
			"GET /networks": says(200, `[]`),
		}}
		names, err := reap(t.Context(), connectFake(t, engine))
		var removed []string
		for _, call := range engine.calls {
			if strings.HasPrefix(call, "DELETE") && !slices.Contains(removed, call) {
				removed = append(removed, call)
			}
		}
		slices.Sort(removed)
		if err != nil || !slices.Equal(removed, test.removed) || (len(names) > 0) != (test.removed != nil) {
			t.Errorf("%s: %v, removed %v, %v", name, names, removed, err)
		}
	}
}

// TestLoadNeedsImage: the error of an image that the engine lacks says what to do.
func TestLoadNeedsImage(t *testing.T) {
	engine := &fakeEngine{answers: map[string]func() (int, string){"GET /images/": says(404, message("No such image"))}}
	c := planned()
	c.docker = connectFake(t, engine)
	if err := c.Load(t.Context(), "mine:1", nil); err == nil || !strings.Contains(err.Error(), "quintet images build") {
		t.Errorf("%v", err)
	}
	if err := c.LoadArchive(t.Context(), filepath.Join(t.TempDir(), "none.tar"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an archive that is not there: %v", err)
	}
}
