package cache

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/storage/etcd"
	"quintet.dev/quintet/components/apiserver/storage/etcdtest"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

const manyPods = 10_000

func benchmarkStores(b *testing.B, run func(b *testing.B, f *fixture)) {
	b.Run("memory", func(b *testing.B) { run(b, start(b, memory.New(nil), Config{})) })
	b.Run("etcd", func(b *testing.B) {
		s, err := etcd.New(etcd.Config{Endpoints: []string{etcdtest.Start(b)}})
		if err != nil {
			b.Fatal(err)
		}
		run(b, start(b, s, Config{}))
	})
}

// parallel spreads b.N calls over 32 goroutines, as many as the bench has clients.
func parallel(b *testing.B, call func(i int) error) {
	const clients = 32
	next := make(chan int, clients)
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for i := range next {
				if err := call(i); err != nil {
					b.Error(err)
				}
			}
		})
	}
	b.ResetTimer()
	for i := range b.N {
		next <- i
	}
	close(next)
	wg.Wait()
}

func BenchmarkCreate(b *testing.B) {
	benchmarkStores(b, func(b *testing.B, f *fixture) {
		parallel(b, func(i int) error {
			name := fmt.Sprintf("p%d", i)
			_, err := f.pods.Create(f.ctx, f.pods.Key("a", name), pod("a", name, "n"), 0)
			return err
		})
	})
}

func BenchmarkGet(b *testing.B) {
	benchmarkStores(b, func(b *testing.B, f *fixture) {
		e := f.create("a", "x", "n")
		parallel(b, func(int) error {
			_, err := f.pods.Get(f.ctx, e.Key, "")
			return err
		})
	})
}

func BenchmarkUpdate(b *testing.B) {
	benchmarkStores(b, func(b *testing.B, f *fixture) {
		const objects = 1000
		for i := range objects {
			f.create("a", fmt.Sprintf("p%d", i), "n")
		}
		parallel(b, func(i int) error {
			_, err := f.pods.Update(f.ctx, f.pods.Key("a", fmt.Sprintf("p%d", i%objects)), nil,
				changing(func(p *corev1.Pod) { p.Generation++ }))
			return err
		})
	})
}

// BenchmarkReadAfterOthers is a consistent read when the store's revision was moved by keys that the watch doesn't
// bring.
func BenchmarkReadAfterOthers(b *testing.B) {
	benchmarkStores(b, func(b *testing.B, f *fixture) {
		f.create("a", "x", "n")
		for i := range b.N {
			if _, err := f.store.Create(f.ctx, fmt.Sprintf("/other/%d", i), nil, 0); err != nil {
				b.Fatal(err)
			}
			f.list(ListOptions{})
		}
	})
}

func fill(b *testing.B, f *fixture) {
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for j := i; j < manyPods; j += 32 {
				f.create(fmt.Sprintf("ns%d", j%100), fmt.Sprintf("p%05d", j), fmt.Sprintf("node%d", j%500))
			}
		})
	}
	wg.Wait()
}

func BenchmarkList(b *testing.B) {
	f := start(b, memory.New(nil), Config{Encodings: 1 << 30})
	fill(b, f)
	item := corev1.SchemeGroupVersion.WithKind("Pod")
	for _, media := range []codec.MediaType{codec.JSON, codec.Protobuf} {
		b.Run(media.String(), func(b *testing.B) {
			format := f.pods.Format(corev1.SchemeGroupVersion, media, Whole)
			for b.Loop() {
				l := f.list(ListOptions{})
				out := counter(0)
				err := codec.WriteList(&out, media, codec.List{
					Kind: corev1.SchemeGroupVersion.WithKind("PodList"), Item: item, Meta: l.Meta(),
					Items: l.Bodies(format),
				})
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(out))
			}
		})
	}
	for _, media := range []codec.MediaType{codec.JSON, codec.Protobuf} {
		b.Run("zipped "+media.String(), func(b *testing.B) {
			format := f.pods.Format(corev1.SchemeGroupVersion, media, Whole)
			for b.Loop() {
				out := counter(0)
				err := f.list(ListOptions{}).WriteZipped(&out, format,
					codec.List{Kind: corev1.SchemeGroupVersion.WithKind("PodList"), Item: item})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("of one node", func(b *testing.B) {
		p := Predicate{Field: fields.ParseSelectorOrDie("spec.nodeName=node7")}
		for b.Loop() {
			f.list(ListOptions{Predicate: p})
		}
	})
}

type counter int64

var _ io.Writer = (*counter)(nil)

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// BenchmarkFanOut delivers each event to 200 watchers; ns/op is per event.
func BenchmarkFanOut(b *testing.B) {
	benchmarkWatch(b, 200, func(int) Predicate { return Predicate{} })
}

// BenchmarkKubelets has 5,000 watchers of which one is concerned.
func BenchmarkKubelets(b *testing.B) {
	benchmarkWatch(b, 5000, func(i int) Predicate {
		return Predicate{Field: fields.ParseSelectorOrDie(fmt.Sprintf("spec.nodeName=node%d", i))}
	})
}

func benchmarkWatch(b *testing.B, watchers int, predicate func(int) Predicate) {
	f := startMemory(b)
	e := f.create("a", "x", "node7")
	ctx, cancel := context.WithCancel(f.ctx)
	var wg sync.WaitGroup
	for i := range watchers {
		w, err := f.pods.Watch(ctx, WatchOptions{ResourceVersion: formatRevision(e.Revision), Predicate: predicate(i)})
		if err != nil {
			b.Fatal(err)
		}
		wg.Go(func() {
			defer w.Close()
			for {
				if _, err := w.Next(ctx); err != nil {
					return
				}
			}
		})
	}
	for b.Loop() {
		f.alter("a", "x", func(p *corev1.Pod) { p.Generation++ })
	}
	f.list(ListOptions{})
	cancel()
	wg.Wait()
}

// BenchmarkLoad fills the caches from a store with many pods, as at start.
func BenchmarkLoad(b *testing.B) {
	benchmarkStores(b, func(b *testing.B, f *fixture) {
		fill(b, f)
		for b.Loop() {
			if _, err := f.set.load(f.ctx); err != nil {
				b.Fatal(err)
			}
		}
	})
}
