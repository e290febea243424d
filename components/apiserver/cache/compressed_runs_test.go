package cache

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"iter"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/codec"
	ages "quintet.dev/quintet/components/apiserver/kinds/show"
)

// TestZippedTables lets time pass, and objects change, between tables: none may show an outdated age or object. Where
// nothing can have changed, nothing is compressed again.
func TestZippedTables(t *testing.T) {
	f := startMemory(t)
	for i := range 300 {
		f.create("a", fmt.Sprintf("p%03d", i), "")
	}
	born := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	made := 0
	rows := Rows{
		Version: f.pods.Kind().HubVersion(), Format: f.pods.Format(corev1.SchemeGroupVersion, codec.JSON, Metadata),
	}
	rows.Make = func(entries []*Entry) iter.Seq2[codec.Row, error] {
		return func(yield func(codec.Row, error) bool) {
			for _, e := range entries {
				made++
				body, err := e.Encoded(rows.Format)
				cells := []any{e.Object.GetName(), ages.Ago{Since: born}}
				for _, c := range e.Object.(*corev1.Pod).Status.ContainerStatuses {
					cells = append(cells, ages.Age(c.LastTerminationState.Terminated.FinishedAt))
				}
				f.must(err)
				line, err := codec.NewTableRow(cells, nil)
				if !yield(codec.Row{Cells: line, Object: body}, err) {
					return
				}
			}
		}
	}
	shown := func(now time.Time) (remade int) {
		l := f.list(ListOptions{})
		table := codec.Table{Kind: codec.TableKind("v1"), Meta: l.Meta(), Rows: rows.Make(l.Entries), Now: now}
		var want, zipped bytes.Buffer
		f.must(codec.WriteTable(&want, codec.JSON, table))
		made = 0
		f.must(l.WriteZippedTable(&zipped, l.Entries, rows, table))
		r, err := gzip.NewReader(&zipped)
		f.must(err)
		got, err := io.ReadAll(r)
		f.must(err)
		if !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("the zipped table differs at %v", now.Sub(born))
		}
		return made
	}
	all := len(f.list(ListOptions{}).Entries)
	// Restarts have times of their own, which may be the first to pass.
	f.alter("a", "p100", func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{
			{RestartCount: 3, LastTerminationState: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(born.Add(30 * time.Second))}}}}
	})
	for _, step := range []struct {
		age       time.Duration
		changes   bool
		atMost    int
		atLeast   int
		described string
	}{
		{age: time.Hour, atLeast: all, atMost: all, described: "never shown"},
		{age: time.Hour + 29*time.Second, described: "within the minute"},
		{age: time.Hour + 30*time.Second, atLeast: 1, atMost: all - 1, described: "a restart is a minute older"},
		{age: time.Hour + 59*time.Second, described: "within the minute"},
		{age: time.Hour + 59*time.Second, changes: true, atLeast: 1, atMost: all - 1, described: "an object changed"},
		{age: time.Hour + time.Minute, atLeast: all, atMost: all, described: "the next minute"},
		{age: time.Minute, atLeast: all, atMost: all, described: "the clock was set back"},
		{age: time.Minute + time.Second, atLeast: all, atMost: all, described: "the next second"},
		{age: 100 * time.Hour, atLeast: all, atMost: all, described: "days"},
		{age: 100*time.Hour + 20*time.Minute, atLeast: 1, atMost: all - 1, described: "a restart is an hour older"},
		{age: 100*time.Hour + 59*time.Minute, described: "within the hour"},
	} {
		if step.changes {
			f.alter("a", "p200", func(p *corev1.Pod) { p.Generation++ })
		}
		if n := shown(born.Add(step.age)); n < step.atLeast || n > step.atMost {
			t.Errorf("%s: %d of %d rows are made anew", step.described, n, all)
		}
	}
}
