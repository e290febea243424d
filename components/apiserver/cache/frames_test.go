package cache

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// TestFrames: an event for many watchers is encoded once, to the same bytes that a single watcher gets.
func TestFrames(t *testing.T) {
	f := start(t, memory.New(nil), Config{})
	first := f.create("a", "x", "n1")
	watch := func(p Predicate) *Watcher {
		w, err := f.pods.Watch(f.ctx, WatchOptions{ResourceVersion: formatRevision(first.Revision), Predicate: p})
		f.must(err)
		t.Cleanup(w.Close)
		return w
	}
	alone := watch(Predicate{Field: fields.ParseSelectorOrDie("spec.nodeName=n1")})
	var many []*Watcher
	for range batchedFrom {
		many = append(many, watch(Predicate{}))
	}
	format := f.pods.Format(corev1.SchemeGroupVersion, codec.JSON, Whole)
	var mine Frames
	framed := func(w *Watcher) *Frames {
		t.Helper()
		ctx, cancel := context.WithTimeout(f.ctx, time.Minute)
		defer cancel()
		events, err := w.Next(ctx)
		f.must(err)
		frames, err := w.Frame(format, events, &mine)
		f.must(err)
		if len(frames.Ends) != 1 || frames.Ends[0] != len(frames.Bytes) ||
			!bytes.HasPrefix(frames.Bytes, []byte(`{"type":"MODIFIED","object":{`)) {
			t.Fatalf("frames %v: %s", frames.Ends, frames.Bytes)
		}
		return frames
	}
	for range 2 {
		f.alter("a", "x", func(p *corev1.Pod) { p.Generation++ })
		shared := framed(many[0])
		for _, w := range many[1:] {
			if framed(w) != shared {
				t.Fatal("what others were told is written anew")
			}
		}
		if own := framed(alone); own != &mine || !bytes.Equal(own.Bytes, shared.Bytes) {
			t.Errorf("alone: %s, among many: %s", own.Bytes, shared.Bytes)
		}
	}
	if f.pods.Format(corev1.SchemeGroupVersion, codec.Protobuf, Whole).turn.Load() != 0 {
		t.Error("somebody has asked for protobuf")
	}
}

// TestLargeFrames are sent and not kept, be it for others or by the watch that they were written for.
func TestLargeFrames(t *testing.T) {
	f := start(t, memory.New(nil), Config{})
	f.create("a", "x", "n1")
	f.alter("a", "x", func(p *corev1.Pod) { p.Annotations = map[string]string{"large": strings.Repeat("x", maxKept)} })
	w, err := f.pods.Watch(f.ctx, WatchOptions{})
	f.must(err)
	defer w.Close()
	events, err := w.Next(f.ctx)
	f.must(err)
	format := f.pods.Format(corev1.SchemeGroupVersion, codec.JSON, Whole)
	for _, w.batched = range []bool{false, true} {
		var own Frames
		frames, err := w.Frame(format, events, &own)
		f.must(err)
		if len(frames.Bytes) <= maxKept || len(frames.Ends) != 1 || own.Bytes != nil || format.shared[1].Load() != nil {
			t.Errorf("%d bytes of which %d are kept", len(frames.Bytes), cap(own.Bytes))
		}
	}
}
