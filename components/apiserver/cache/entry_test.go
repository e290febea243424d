package cache

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

func TestEncodedOncePerFormat(t *testing.T) {
	f := startMemory(t)
	e := f.create("a", "x", "n1")
	for _, c := range []struct {
		media codec.MediaType
		shape Shape
		want  string
	}{
		{codec.JSON, Whole, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"`},
		{codec.JSON, Metadata, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"x"`},
		{codec.Protobuf, Whole, ""},
		{codec.Protobuf, Metadata, ""},
	} {
		format := f.pods.Format(corev1.SchemeGroupVersion, c.media, c.shape)
		one, err := e.Encoded(format)
		f.must(err)
		two, _ := e.Encoded(format)
		if !strings.HasPrefix(string(one), c.want) || &one[0] != &two[0] {
			t.Errorf("%v: got %q", c, one)
		}
	}
}

// TestEncodedOnceIsForgotten: a body that is requested once goes with the next garbage collection; one that is
// requested again is kept.
func TestEncodedOnceIsForgotten(t *testing.T) {
	f := startMemory(t)
	format := f.pods.Format(corev1.SchemeGroupVersion, codec.JSON, Whole)
	alone, shared := f.create("a", "x", ""), f.create("a", "y", "")
	for _, e := range []*Entry{alone, shared} {
		body, err := e.EncodedOnce(format)
		f.must(err)
		if e.kept(format) != nil {
			t.Error("a body is kept at once")
		}
		if e == shared {
			again, err := e.Encoded(format)
			f.must(err)
			if &again[0] != &body[0] {
				t.Error("it is encoded a second time")
			}
		}
	}
	runtime.GC()
	if alone.link(format).recent.Value() != nil {
		t.Error("a body outlives its only reader")
	}
	if shared.kept(format) == nil {
		t.Error("a shared body is not kept")
	}
	_, err := alone.EncodedOnce(format)
	f.must(err)
	if alone.kept(format) == nil {
		t.Error("a body that is asked for again is not kept")
	}
}

// TestSlowConversion: readers of the stored version don't wait for the webhook that another version needs, which is
// called once for all readers of that version.
func TestSlowConversion(t *testing.T) {
	v1, v2 := schema.GroupVersion{Group: "example.com", Version: "v1"},
		schema.GroupVersion{Group: "example.com", Version: "v2"}
	asked, answered := make(chan struct{}, 2), make(chan struct{})
	kind := &api.Kind{
		Name: "Widget", Resource: "widgets", Prefix: "example.com/widgets", Hub: v1,
		Custom: &api.Custom{Remote: true},
		Versions: []api.Version{{GroupVersion: v1},
			{GroupVersion: v2, FromHub: func(hub api.Object) (api.Object, error) {
				asked <- struct{}{}
				<-answered
				return hub, nil
			}}},
	}
	formats := makeFormats(kind, newBudget(1<<20))
	e := &Entry{Key: "a", Revision: 1, Object: &unstructured.Unstructured{Object: map[string]any{}}}
	var slow sync.WaitGroup
	for range 2 {
		slow.Go(func() {
			if _, err := e.Encoded(formats[formatKey{v2, codec.JSON, Whole}]); err != nil {
				t.Error(err)
			}
		})
	}
	<-asked
	for _, format := range []formatKey{{v1, codec.JSON, Whole}, {v1, codec.CBOR, Whole},
		{v1, codec.JSON, Metadata}} {
		if _, err := e.Encoded(formats[format]); err != nil { // this never ends if it waits for the webhook
			t.Error(err)
		}
	}
	close(answered)
	slow.Wait()
	if len(asked) > 0 {
		t.Error("the webhook was asked twice")
	}
}

// TestFailedConversion: all readers that wait for a webhook get its error, whatever they want of the object; later
// readers call it again.
func TestFailedConversion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = 10 * time.Second
		v1, v2 := schema.GroupVersion{Group: "example.com", Version: "v1"},
			schema.GroupVersion{Group: "example.com", Version: "v2"}
		asked, fault := 0, errors.New("it is away")
		kind := &api.Kind{
			Name: "Widget", Resource: "widgets", Prefix: "example.com/widgets", Hub: v1,
			Custom: &api.Custom{Remote: true},
			Versions: []api.Version{{GroupVersion: v1},
				{GroupVersion: v2, FromHub: func(hub api.Object) (api.Object, error) {
					asked++
					time.Sleep(takes)
					return hub, fault
				}}},
		}
		formats := makeFormats(kind, newBudget(1<<20))
		e := &Entry{Key: "a", Revision: 1, Object: &unstructured.Unstructured{Object: map[string]any{}}}
		began := time.Now()
		all := func(want error) {
			var waiting sync.WaitGroup
			for i := range 9 {
				waiting.Go(func() {
					var err error
					switch media := []codec.MediaType{codec.JSON, codec.CBOR}; i % 3 {
					case 2:
						_, err = e.In(kind, &kind.Versions[1])
					default:
						_, err = e.Encoded(formats[formatKey{v2, media[i%3], Whole}])
					}
					if !errors.Is(err, want) {
						t.Errorf("got %v", err)
					}
				})
			}
			waiting.Wait()
		}
		all(fault)
		if took := time.Since(began); asked != 1 || took != takes {
			t.Errorf("asked %d times, in %v", asked, took)
		}
		fault = nil
		all(nil)
		all(nil)
		if took := time.Since(began); asked != 2 || took != 2*takes {
			t.Errorf("asked %d times, in %v", asked, took)
		}
	})
}

// TestBrokenOffConversion: readers that wait for a conversion that panics get an error, and later readers are served.
func TestBrokenOffConversion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, panics := &unstructured.Unstructured{Object: map[string]any{}}, true
		f := &form{version: &api.Version{FromHub: func(hub api.Object) (api.Object, error) {
			time.Sleep(time.Second)
			if panics {
				panic("a bug")
			}
			return hub, nil
		}}}
		broke := make(chan any)
		go func() {
			defer func() { broke <- recover() }()
			_, _ = f.of(hub)
		}()
		synctest.Wait()
		if obj, err := f.of(hub); obj != nil || !errors.Is(err, errNoAnswer) {
			t.Errorf("got %v, %v", obj, err)
		}
		if <-broke == nil {
			t.Error("the panic was lost")
		}
		panics = false
		if obj, err := f.of(hub); obj != api.Object(hub) || err != nil {
			t.Errorf("got %v, %v", obj, err)
		}
	})
}

func TestBudgetIsKept(t *testing.T) {
	f := start(t, memory.New(nil), Config{Encodings: 2000})
	format := f.pods.Format(corev1.SchemeGroupVersion, codec.JSON, Whole)
	for i := range 50 {
		_, err := f.create("a", fmt.Sprintf("p%02d", i), "").Encoded(format)
		f.must(err)
	}
	kept := 0
	for _, e := range f.list(ListOptions{}).Entries {
		kept += len(e.kept(format))
	}
	if kept == 0 || kept > 2000 {
		t.Fatalf("%d bytes are kept", kept)
	}
}

// TestZippedLists changes objects between lists: none may come from an old run.
func TestZippedLists(t *testing.T) {
	f := startMemory(t)
	for i := range 500 {
		f.create("a", fmt.Sprintf("p%03d", i), "")
	}
	for _, media := range []codec.MediaType{codec.JSON, codec.Protobuf} {
		format := f.pods.Format(corev1.SchemeGroupVersion, media, Whole)
		for i := range 5 {
			f.alter("a", fmt.Sprintf("p%03d", 100*i), func(p *corev1.Pod) { p.Generation++ })
			l := f.list(ListOptions{})
			out := codec.List{Kind: corev1.SchemeGroupVersion.WithKind("PodList"), Item: format.Kind, Meta: l.Meta(),
				Items: l.Bodies(format)}
			var want, zipped bytes.Buffer
			f.must(codec.WriteList(&want, media, out))
			f.must(l.WriteZipped(&zipped, format, out))
			r, err := gzip.NewReader(&zipped)
			f.must(err)
			got, err := io.ReadAll(r)
			f.must(err)
			if !bytes.Equal(got, want.Bytes()) {
				t.Fatalf("%s: the zipped list differs", media)
			}
		}
	}
	if l := f.list(ListOptions{
		Predicate: Predicate{Label: labels.SelectorFromSet(labels.Set{"app": "p"})}}); l.CanZip() {
		t.Error("a chosen list is zipped")
	}
}
