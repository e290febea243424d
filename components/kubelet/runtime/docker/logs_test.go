package docker

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/logs"
	"quintet.dev/quintet/components/kubelet/runtime"
)

// The file of a container has all of its lines, in order, though the engine rotates its own file, lines are longer than
// the engine's messages, and the kubelet stops and starts.
func TestLogFiles(t *testing.T) {
	const lines = 40000
	e := engine(t)
	uid, _ := run(t, e, func(s *runtime.ContainerSpec) { s.LogMaxSize, s.LogMaxFiles = "1m", 9 }, "count",
		fmt.Sprint(lines))
	dir := t.TempDir()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", UID: uid}}
	follow := func(ctx context.Context) *logs.Manager {
		m := &logs.Manager{Source: e, Dir: filepath.Join(dir, "pods"), Links: filepath.Join(dir, "containers"),
			MaxBytes: 100 << 20, MaxFiles: 3, Clock: clock.RealClock{}}
		observed, err := e.Pod(t.Context(), uid)
		if err != nil {
			t.Fatal(err)
		}
		m.Follow(ctx, pod, &observed)
		return m
	}
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		follow(ctx).Wait()
		cancel()
	}
	await(t, e, uid)
	follow(t.Context()).Wait()
	data, err := os.ReadFile(filepath.Join(dir, "pods", "ns_pod_"+string(uid), "c", "0.log"))
	if err != nil {
		t.Fatal(err)
	}
	next := 0
	for record := range bytes.Lines(data) {
		words := strings.SplitN(strings.TrimSuffix(string(record), "\n"), " ", 4)
		if len(words) != 4 || words[1] != "stdout" {
			t.Fatalf("record %.100q", record)
		}
		if strings.HasPrefix(words[3], "x") { // of a long line, parts of which the engine may tell again
			continue
		}
		if want := fmt.Sprintf("line %d of those that are counted", next); words[2] != "F" || words[3] != want {
			t.Fatalf("got %.100q, want %q", record, want)
		}
		next++
	}
	if next != lines {
		t.Errorf("%d lines, want %d", next, lines)
	}
}
