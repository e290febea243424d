package logs

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// output is what an engine has of its only container: messages of a stream each, with times.
type output struct {
	mu       sync.Mutex
	messages []string // "out" or "err", a space and the message
	block    bool     // a stream does not end before its reader wants it to
	since    []time.Time
	fails    int // streams that fail at their end
}

func (o *output) add(messages ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.messages = append(o.messages, messages...)
}

func (o *output) Logs(ctx context.Context, id string, options runtime.LogOptions, stdout, stderr io.Writer) error {
	o.mu.Lock()
	messages, block := slices.Clone(o.messages), o.block
	o.since = append(o.since, options.Since)
	fails := o.fails > 0
	o.fails--
	o.mu.Unlock()
	if id != "id" || !options.Follow || !options.Timestamps {
		return runtime.ErrNotFound
	}
	for _, m := range messages {
		stream, message, _ := strings.Cut(m, " ")
		text, _, _ := strings.Cut(message, " ")
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil && at.Before(options.Since) {
			continue
		}
		to := stdout
		if stream == "err" {
			to = stderr
		}
		if _, err := io.WriteString(to, message); err != nil {
			return err
		}
	}
	if fails {
		return errors.New("connection lost")
	}
	if block {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func logged(second int, stream, text string) string {
	return fmt.Sprintf("%s 2026-01-01T00:00:%02d.5Z %s", stream, second, text)
}

func record(second int, stream, tag, text string) string {
	return fmt.Sprintf("2026-01-01T00:00:%02d.5Z %s %s %s\n", second, stream, tag, text)
}

func thePod(tty bool) (*v1.Pod, *runtime.Pod) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid"},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", TTY: tty}}}}
	return pod, &runtime.Pod{UID: "uid",
		Containers: []runtime.Container{{ID: "id", Name: "c", Attempt: 2, State: runtime.Running},
			{ID: "created", Name: "c", State: runtime.Created}}}
}

func newManager(t *testing.T, source Source) *Manager {
	dir := t.TempDir()
	return &Manager{Source: source, Dir: filepath.Join(dir, "pods"), Links: filepath.Join(dir, "containers"),
		MaxBytes: 1 << 20, MaxFiles: 3, Clock: clock.RealClock{}}
}

func (m *Manager) file() string { return filepath.Join(m.Dir, "ns_p_uid", "c", "2.log") }

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestFormat(t *testing.T) {
	for name, tc := range map[string]struct {
		tty  bool
		said []string
		want string
	}{
		"streams": {false, []string{logged(1, "out", "one\n"), logged(2, "err", "two\n")},
			record(1, "stdout", "F", "one") + record(2, "stderr", "F", "two")},
		"parts": {false, []string{logged(1, "out", "be"), logged(2, "out", "gun\n")},
			record(1, "stdout", "P", "be") + record(2, "stdout", "F", "gun")},
		"messages in pieces": {false, []string{logged(1, "out", "be"), "out gi", logged(2, "out", "nn"), "out ing\n"},
			record(1, "stdout", "P", "begi") + record(2, "stdout", "F", "nning")},
		"empty line": {false, []string{logged(1, "out", "\n")}, record(1, "stdout", "F", "")},
		"spaces":     {false, []string{logged(1, "out", " a  b\n")}, record(1, "stdout", "F", " a  b")},
		"terminal in pieces": {true, []string{logged(1, "out", "he"), "out llo\r\n", logged(2, "out", "x")},
			record(1, "stdout", "F", "hello\r") + record(2, "stdout", "P", "x")},
		"times that are equal": {false, []string{logged(1, "out", "one\n"), logged(1, "out", "two\n")},
			record(1, "stdout", "F", "one") + record(1, "stdout", "F", "two")},
	} {
		m := newManager(t, &output{messages: tc.said})
		pod, observed := thePod(tc.tty)
		m.Follow(t.Context(), pod, observed)
		m.Wait()
		if got := read(t, m.file()); got != tc.want {
			t.Errorf("%s: got\n%swant\n%s", name, got, tc.want)
		}
		link := filepath.Join(m.Links, "p_ns_c-id.log")
		if to, err := os.Readlink(link); err != nil || to != m.file() {
			t.Errorf("%s: link to %q, %v", name, to, err)
		}
	}
}

// What was written before a restart is not written again, and nothing between is missing, wherever the writer stopped.
func TestContinues(t *testing.T) {
	said := []string{logged(1, "out", "one\n"), logged(2, "out", "two\n"), logged(2, "err", "three\n"),
		logged(2, "out", "four\n"), logged(1, "out", "five, which came late\n"), logged(3, "out", "six\n")}
	whole := record(1, "stdout", "F", "one") + record(2, "stdout", "F", "two") + record(2, "stderr", "F", "three") +
		record(2, "stdout", "F", "four") + record(1, "stdout", "F", "five, which came late") +
		record(3, "stdout", "F", "six")
	for cut := range len(whole) + 1 {
		m := newManager(t, &output{messages: said})
		if err := os.MkdirAll(filepath.Dir(m.file()), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(m.file(), []byte(whole[:cut]), 0o640); err != nil {
			t.Fatal(err)
		}
		pod, observed := thePod(false)
		m.Follow(t.Context(), pod, observed)
		m.Wait()
		if got := read(t, m.file()); got != whole {
			t.Fatalf("cut at %d: got\n%swant\n%s", cut, got, whole)
		}
	}
}

func TestFailuresAreRetried(t *testing.T) {
	source := &output{messages: []string{logged(1, "out", "one\n")}, fails: 2}
	m := newManager(t, source)
	c := testingclock.NewFakeClock(time.Unix(0, 0))
	m.Clock = c
	pod, observed := thePod(false)
	m.Follow(t.Context(), pod, observed)
	done := make(chan struct{})
	go func() { m.Wait(); close(done) }()
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting = false
		default:
			if c.HasWaiters() {
				c.Step(mostRetryDelay)
			}
		}
	}
	if got := read(t, m.file()); got != record(1, "stdout", "F", "one") || len(source.since) != 3 {
		t.Errorf("got %s after %d streams", got, len(source.since))
	}
}

// A container is followed once; after it ended it is read once more.
func TestFollowsOnce(t *testing.T) {
	source := &output{block: true}
	m := newManager(t, source)
	pod, observed := thePod(false)
	ctx, stop := context.WithCancel(t.Context())
	m.Follow(ctx, pod, observed)
	m.Follow(ctx, pod, observed)
	stop()
	m.Wait()
	source.block = false
	source.add(logged(1, "out", "last words\n"))
	observed.Containers[0].State = runtime.Exited
	for range 3 {
		m.Follow(t.Context(), pod, observed)
		m.Wait()
	}
	if got := read(t, m.file()); len(source.since) > 2 || got != record(1, "stdout", "F", "last words") {
		t.Errorf("%d streams, %s", len(source.since), got)
	}
}

func TestRotation(t *testing.T) {
	m := newManager(t, nil)
	c := testingclock.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	w, err := open(m.file(), 100, 3, c)
	if err != nil {
		t.Fatal(err)
	}
	var want string
	for i := range 10 {
		text := fmt.Sprintf("line %d of some length, so that two of them fill a file", i)
		message := fmt.Sprintf("2026-01-01T00:00:%02d.5Z %s\n", i, text)
		if _, err := w.stream("stdout").Write([]byte(message)); err != nil {
			t.Fatal(err)
		}
		want += record(i, "stdout", "F", text)
		if i%2 == 0 {
			c.SetTime(c.Now().Add(time.Second))
		}
	}
	w.close()
	files, err := filepath.Glob(m.file() + "*")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	var got string
	for _, file := range append(files[1:], files[0]) {
		names = append(names, strings.TrimPrefix(file, m.file()))
		data := read(t, file)
		if strings.HasSuffix(file, zipped) {
			unzip, err := gzip.NewReader(strings.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			all, err := io.ReadAll(unzip)
			if err != nil {
				t.Fatal(err)
			}
			data = string(all)
		}
		got += data
	}
	if strings.Join(names, " ") != ".20260101-000004.gz .20260101-000005 " {
		t.Errorf("files %q", names)
	}
	if len(got) < 100 || !strings.HasSuffix(want, got) {
		t.Errorf("got\n%swhich is not the end of\n%s", got, want)
	}
	again, err := open(m.file(), 100, 3, c) // it is empty: the record before it tells where to go on
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if again.resume.Second() != 8 || len(again.written) != 2 {
		t.Errorf("continues at %v, %v", again.resume, again.written)
	}
}

func TestRemove(t *testing.T) {
	source := &output{messages: []string{logged(1, "out", "x\n")}, block: true}
	m := newManager(t, source)
	pod, observed := thePod(false)
	m.Follow(t.Context(), pod, observed)
	for !exists(m.file()) || !exists(filepath.Join(m.Links, "p_ns_c-id.log")) {
		time.Sleep(time.Millisecond)
	}
	if err := os.WriteFile(m.file()+".20260101-000000.gz", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.Remove("id"); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(m.Dir, "*", "*", "*"))
	links, _ := os.ReadDir(m.Links)
	if err != nil || len(left) > 0 || len(links) > 0 {
		t.Errorf("left: %v, %v, %v", left, links, err)
	}
	source.block = false
	m.Follow(t.Context(), pod, observed)
	m.Wait()
	other := &Manager{Dir: m.Dir, Links: m.Links} // a kubelet that was restarted
	if err := os.Symlink("/elsewhere", filepath.Join(m.Links, "other")); err != nil {
		t.Fatal(err)
	}
	if err := other.RemovePod("uid"); err != nil {
		t.Fatal(err)
	}
	links, err = os.ReadDir(m.Links)
	if err != nil || exists(filepath.Join(m.Dir, "ns_p_uid")) || len(links) != 1 {
		t.Errorf("left after the pod: %v, %v", links, err)
	}
}
