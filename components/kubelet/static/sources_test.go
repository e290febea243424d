package static

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
)

// runs records which pods run.
type runs struct{ log []string }

func (r *runs) Set(pod *v1.Pod) {
	r.log = append(r.log, "set "+pod.Name+" "+pod.Spec.Containers[0].Image)
}
func (r *runs) Gone(pod *v1.Pod) {
	r.log = append(r.log, "gone "+pod.Name+" "+pod.Spec.Containers[0].Image)
}

func (r *runs) take() []string {
	defer func() { r.log = nil }()
	return r.log
}

// named is the manifest of a pod.
func named(name, image string) string {
	return strings.NewReplacer("name: web", "name: "+name, "image:1", image).Replace(web)
}

func newSources(config Config) (*Sources, *runs, *record.FakeRecorder) {
	runner, recorder := &runs{}, record.NewFakeRecorder(10)
	config.Node, config.Runner, config.Recorder = "n", runner, recorder
	config.Clock = clocktesting.NewFakeClock(time.Unix(1, 0))
	config.Mirrors = NewMirrors(nil, nil, nil)
	return NewSources(config), runner, recorder
}

// TestReplace: a pod is handed on when it is new or changed, and ends when its manifest is gone.
func TestReplace(t *testing.T) {
	s, runner, recorder := newSources(Config{})
	set := &pods{Sources: s, known: map[types.UID]*v1.Pod{}}
	replace := func(manifests ...string) []string {
		var list []*v1.Pod
		for i, m := range manifests {
			list = append(list, parse(t, "n", "/m/"+string(rune('a'+i)), m))
		}
		set.replace(t.Context(), list)
		return runner.take()
	}
	for _, step := range []struct {
		what      string
		manifests []string
		want      []string
	}{
		{"new", []string{named("a", "i:1"), named("b", "i:1")}, []string{"set a-n i:1", "set b-n i:1"}},
		{"the same", []string{named("a", "i:1"), named("b", "i:1")}, nil},
		{"changed is another pod", []string{named("a", "i:2"), named("b", "i:1")}, []string{"gone a-n i:1", "set a-n i:2"}},
		{"gone", []string{named("a", "i:2")}, []string{"gone b-n i:1"}},
		{"duplicate", []string{named("a", "i:2"), named("a", "i:3")}, nil},
	} {
		if got := replace(step.manifests...); !slices.Equal(got, step.want) {
			t.Errorf("%s: %q, want %q", step.what, got, step.want)
		}
	}
	want := `Warning FailedValidation Error validating pod a-n.default from file due to duplicate pod name "a-n", ignoring`
	select {
	case got := <-recorder.Events:
		if got != want {
			t.Errorf("event %q", got)
		}
	default:
		t.Error("no event tells of the duplicate")
	}
	fixed := func(image string) string {
		return strings.Replace(named("u", image), "name: u", "name: u\n  uid: u1", 1)
	}
	_ = replace(fixed("i:1"))
	seen := set.known["u1"].Annotations[seenAnnotation]
	s.Clock.(*clocktesting.FakeClock).Step(time.Hour)
	if got := replace(fixed("i:2")); !slices.Equal(got, []string{"set u-n i:2"}) ||
		set.known["u1"].Annotations[seenAnnotation] != seen || seen == "" {
		t.Errorf("a pod that keeps its UID: %q, seen %q", got, seen)
	}
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDirectory: which files are manifests, and what one counts for that can't be read.
func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	s, _, _ := newSources(Config{Path: dir})
	files := &directory{Sources: s, last: map[string]*v1.Pod{}}
	names := func(changed bool) (out []string) {
		list, err := files.read(t.Context(), changed)
		if err != nil {
			t.Fatal(err)
		}
		for _, pod := range list {
			out = append(out, pod.Name)
		}
		return out
	}
	write(t, dir, "b.yaml", named("b", "i:1"))
	write(t, dir, "a", named("a", "i:1"))
	write(t, dir, ".hidden.yaml", named("hidden", "i:1"))
	if err := os.Mkdir(filepath.Join(dir, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "below"), "c.yaml", named("c", "i:1"))
	if got := names(true); !slices.Equal(got, []string{"a-n", "b-n"}) {
		t.Errorf("pods %v", got)
	}
	write(t, dir, "b.yaml", "{")
	write(t, dir, "d.yaml", "{")
	if got := names(true); !slices.Equal(got, []string{"a-n", "b-n"}) {
		t.Errorf("while one may be half written: %v", got)
	}
	if got := names(false); !slices.Equal(got, []string{"a-n"}) {
		t.Errorf("one that stays broken: %v", got)
	}
	for path, want := range map[string]int{filepath.Join(dir, "a"): 1, filepath.Join(dir, "none"): 0} {
		if found, err := manifests(path); err != nil || len(found) != want {
			t.Errorf("%s: %v, %v", path, found, err)
		}
	}
	if _, err := manifests(os.DevNull); err == nil || err.Error() != "path is not a directory or file" {
		t.Errorf("a device is taken for a manifest: %v", err)
	}
}

// TestFetch: a page is read with the headers that are configured, and only a full answer counts.
func TestFetch(t *testing.T) {
	answers := map[string]struct {
		code int
		body string
		want string
	}{
		"/pod":     {200, web, ""},
		"/error":   {503, web, "503 Service Unavailable"},
		"/empty":   {200, "", "zero-length data received"},
		"/missing": {404, "", "404 Not Found"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Values("X-Key"); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("headers %v", got)
		}
		w.WriteHeader(answers[r.URL.Path].code)
		_, _ = w.Write([]byte(answers[r.URL.Path].body))
	}))
	defer server.Close()
	for path, a := range answers {
		s, _, _ := newSources(Config{URL: server.URL + path, Header: map[string][]string{"X-Key": {"a", "b"}}})
		data, err := s.fetch(t.Context(), server.Client())
		if (err == nil) != (a.want == "") || err == nil && string(data) != a.body ||
			err != nil && !strings.Contains(err.Error(), a.want) {
			t.Errorf("%s: %q, %v", path, data, err)
		}
	}
}
