package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs an auditor while the requests pass it, each for the user and the verb that its path names: /alice/get.
func serve(t *testing.T, config Config, h http.Handler, paths ...string) {
	t.Helper()
	a, err := New(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	chain := a.Begin(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, rest, _ := strings.Cut(r.URL.Path, "/")
		name, verb, _ := strings.Cut(rest, "/")
		ctx := request.WithRequestInfo(r.Context(), &request.RequestInfo{Path: r.URL.Path, Verb: verb})
		if name == "nobody" {
			a.Refused(http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })).
				ServeHTTP(w, r.WithContext(ctx))
			return
		}
		ctx = request.WithUser(ctx, &user.DefaultInfo{Name: name})
		a.Record(h, func(_ *http.Request, info *request.RequestInfo) bool { return info.Verb == "watch" }).ServeHTTP(w,
			r.WithContext(ctx))
	}))
	for _, path := range paths {
		func() {
			defer func() { _ = recover() }()
			w := httptest.NewRecorder()
			w.Header().Set("Audit-Id", "id-of-"+path)
			chain.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		}()
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

var answer = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "panic") {
		panic("a fault")
	}
	_, _ = io.WriteString(w, "ok")
})

// told is what an event says, in short.
func told(e *auditv1.Event) string {
	return fmt.Sprintf("%s %s %s %d", e.AuditID, e.User.Username, e.Stage, codeOf(e))
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(strings.SplitSeq(strings.TrimSpace(string(content)), "\n"))
}

// TestLog: the stages of the requests that the policy wants, in each mode.
func TestLog(t *testing.T) {
	rules := head + "omitStages: [RequestReceived]\nrules: [{level: None, users: [bob]}, {level: Metadata}]"
	want := []string{
		"id-of-/alice/get alice ResponseComplete 200",
		"id-of-/alice/watch alice ResponseStarted 200",
		"id-of-/alice/watch alice ResponseComplete 200",
		"id-of-/alice/panic alice Panic 500",
		"id-of-/nobody/get  ResponseStarted 401",
	}
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			c := Defaults()
			c.PolicyFile, c.Log.Path, c.Log.Mode = write(t, "p", rules), filepath.Join(t.TempDir(), "log"), mode
			serve(t, c, answer, "/alice/get", "/bob/get", "/alice/watch", "/alice/panic", "/nobody/get")
			var got []string
			for _, line := range lines(t, c.Log.Path) {
				var e auditv1.Event
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatal(err)
				}
				if e.APIVersion != "audit.k8s.io/v1" || e.Kind != "Event" || e.Level != auditv1.LevelMetadata ||
					e.RequestReceivedTimestamp.IsZero() {
					t.Errorf("got %s", line)
				}
				got = append(got, told(&e))
			}
			if !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func TestLegacyFormat(t *testing.T) {
	c := Defaults()
	c.PolicyFile, c.Log.Path, c.Log.Format = write(t, "p", everything), filepath.Join(t.TempDir(), "log"), "legacy"
	serve(t, c, answer, "/alice/get")
	got := lines(t, c.Log.Path)
	if len(got) != 2 || !strings.Contains(got[1], `stage="ResponseComplete"`) ||
		!strings.Contains(got[1], `user="alice"`) {
		t.Errorf("got %q", got)
	}
}

// TestStrict: where nothing can be written, a strict log fails requests and the others don't.
func TestStrict(t *testing.T) {
	for mode, served := range map[string]bool{ModeBlockingStrict: false, ModeBlocking: true, ModeBatch: true} {
		c := Defaults()
		c.PolicyFile, c.Log.Path, c.Log.Mode, c.Log.MaxSize = write(t, "p", everything),
			filepath.Join(t.TempDir(), "log"), mode, 1
		reached := false
		huge := "/" + strings.Repeat("a", 1<<20) + "/get" // no file of one megabyte holds that
		serve(t, c, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }), huge)
		if reached != served {
			t.Errorf("%s: served %v", mode, reached)
		}
	}
}

// TestTruncate: an event that is too large loses what it can.
func TestTruncate(t *testing.T) {
	c := Defaults()
	c.PolicyFile, c.Log.Path, c.Log.Truncate = write(t, "p", everything), filepath.Join(t.TempDir(), "log"), true
	c.Log.Limits.MaxEventSize, c.Log.Limits.MaxBatchSize = 700, 2000
	serve(t, c, answer, "/alice/get", "/"+strings.Repeat("a", 600)+"/get")
	if got := lines(t, c.Log.Path); len(got) != 2 || !strings.Contains(got[1], "alice") {
		t.Errorf("got %q", got)
	}
}

// TestWebhook: events come in lists, and those that wait when the server stops are sent before it has.
func TestWebhook(t *testing.T) {
	got := make(chan string, 100)
	posted := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var list auditv1.EventList
		if err := json.NewDecoder(bufio.NewReader(r.Body)).Decode(&list); err != nil || list.Kind != "EventList" {
			t.Errorf("posted %+v, %v", list, err)
		}
		for i := range list.Items {
			got <- told(&list.Items[i])
		}
		_, _ = io.WriteString(w, "{}")
	}))
	defer posted.Close()
	kubeconfig := `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"` + posted.URL + `"}}],
		"contexts":[{"name":"x","context":{"cluster":"c"}}],"current-context":"x"}`
	for _, mode := range modes {
		c := Defaults()
		c.PolicyFile, c.Webhook.ConfigFile, c.Webhook.Mode = write(t, "p", everything),
			write(t, "kubeconfig", kubeconfig), mode
		serve(t, c, answer, "/"+mode+"/get")
		events := []string{<-got, <-got}
		slices.Sort(events) // of two lists under way, either may be there first
		for i, stage := range []string{"RequestReceived 0", "ResponseComplete 200"} {
			if want := fmt.Sprintf("id-of-/%s/get %s %s", mode, mode, stage); events[i] != want {
				t.Errorf("got %q, want %q", events[i], want)
			}
		}
	}
}

func codeOf(e *auditv1.Event) int32 {
	if e.ResponseStatus == nil {
		return 0
	}
	return e.ResponseStatus.Code
}
