package codec

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	restwatch "k8s.io/client-go/rest/watch"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// clientsCBOR reads as client-go does.
func clientsCBOR() runtime.Serializer {
	scheme := NewScheme()
	return cbor.NewSerializer(scheme, scheme)
}

func widgetRow() *api.Kind {
	gv := schema.GroupVersion{Group: "example.com", Version: "v1"}
	return &api.Kind{
		Name: "Widget", Resource: "widgets", Prefix: "example.com/widgets", Hub: gv, Custom: &api.Custom{},
		Versions: []api.Version{{GroupVersion: gv, New: func() api.Object { return &unstructured.Unstructured{} }}},
	}
}

func widget(spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"}, "spec": spec,
	}}
}

// wide is an object whose map of entries is longer than one byte tells.
func wide(entries int) map[string]any {
	out := map[string]any{}
	for i := range entries {
		out[fmt.Sprint("k", i)] = int64(i)
	}
	return out
}

func TestCBORObjects(t *testing.T) {
	codec, client := NewCodec(NewScheme()), clientsCBOR()
	var buf bytes.Buffer
	if err := codec.Encode(&buf, pod("p"), podKind, CBOR); err != nil {
		t.Fatal(err)
	}
	for name, strict := range map[string]bool{"lenient": false, "strict": true} {
		got, _, err := codec.Decode(buf.Bytes(), CBOR, nil, nil, strict)
		if err != nil || !apiequality.Semantic.DeepEqual(got, pod("p")) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if got, _, err := client.Decode(buf.Bytes(), nil, nil); err != nil ||
		!apiequality.Semantic.DeepEqual(got, pod("p")) {
		t.Errorf("the client sees %v, %v", got, err)
	}
	if _, _, err := codec.Decode([]byte("\xa1\x44kindEThing"), CBOR, nil, nil, false); err == nil {
		t.Error("half an object was read")
	}
}

func TestCBORHeads(t *testing.T) {
	for _, entries := range []int{0, 1, 20, 21, 22, 23, 24, 253, 254, 255, 256, 65533, 65536} {
		u := &unstructured.Unstructured{Object: wide(entries)}
		body, err := Body(u, podKind, CBOR)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := direct.Unmarshal(body, &got); err != nil || len(got) != entries+2 || got["kind"] != "Pod" ||
			got["apiVersion"] != "v1" {
			t.Errorf("%d entries: %d, %v", entries, len(got), err)
		}
		prefix, n := cborKind(podKind)
		got = nil
		if err := direct.Unmarshal(bareCBOR(body, prefix, n), &got); err != nil || len(got) != entries ||
			got["kind"] != nil {
			t.Errorf("%d entries, bare: %d, %v", entries, len(got), err)
		}
		if len(u.Object) != entries {
			t.Errorf("%d entries: the object was changed", entries)
		}
	}
	body, err := Body(&metav1.APIVersions{Versions: []string{"v1"}}, schema.GroupVersionKind{Kind: "APIVersions"}, CBOR)
	var got map[string]any
	if err == nil {
		err = direct.Unmarshal(body, &got)
	}
	if _, told := got["apiVersion"]; err != nil || told || got["kind"] != "APIVersions" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestCBORLists(t *testing.T) {
	body, err := Body(pod("a"), podKind, CBOR)
	if err != nil {
		t.Fatal(err)
	}
	for _, keep := range []bool{false, true} {
		var out bytes.Buffer
		l := List{Kind: podListKind, Item: podKind, Meta: metav1.ListMeta{ResourceVersion: "7"}, KeepKinds: keep,
			Free: keep}
		l.Items = func(yield func([]byte, error) bool) {
			if yield(body, nil) {
				yield(body, nil)
			}
		}
		if err := WriteList(&out, CBOR, l); err != nil {
			t.Fatal(err)
		}
		got, _, err := clientsCBOR().Decode(out.Bytes(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		list, ok := got.(*corev1.PodList)
		if !ok || len(list.Items) != 2 || list.ResourceVersion != "7" || list.Items[1].Name != "a" ||
			(list.Items[1].Kind != "") != keep {
			t.Errorf("keep %v: %+v", keep, got)
		}
		var content map[string]any
		if err := direct.Unmarshal(out.Bytes(), &content); err != nil {
			t.Fatal(err)
		}
		if _, told := content["metadata"].(map[string]any)["continue"]; told != keep {
			t.Errorf("keep %v: %v", keep, content["metadata"])
		}
	}
}

func TestCBORWatch(t *testing.T) {
	body, err := Body(pod("a"), podKind, CBOR)
	if err != nil {
		t.Fatal(err)
	}
	stream := AppendWatchEvent(nil, CBOR, "ADDED", podKind, body)
	stream = AppendWatchEvent(stream, CBOR, "DELETED", podKind, body)
	scheme := NewScheme()
	framer := cbor.NewFramer().NewFrameReader(io.NopCloser(bytes.NewReader(stream)))
	decoder := restwatch.NewDecoder(
		streaming.NewDecoder(framer, cbor.NewSerializer(scheme, scheme, cbor.Transcode(false))), clientsCBOR())
	var types []string
	for {
		event, obj, err := decoder.Decode()
		if err == io.EOF {
			break
		}
		if err != nil || !apiequality.Semantic.DeepEqual(obj, pod("a")) {
			t.Fatalf("%s %v, %v", event, obj, err)
		}
		types = append(types, string(event))
	}
	if !slices.Equal(types, []string{"ADDED", "DELETED"}) {
		t.Errorf("got %v", types)
	}
}

// TestCBORStorage: custom resources are written as the form says, and read in either; others are left alone.
func TestCBORStorage(t *testing.T) {
	obj := widget(map[string]any{"n": int64(1), "f": 1.5, "b": true, "none": nil, "l": []any{"x"}})
	const text, binary = runtime.ContentTypeJSON, runtime.ContentTypeCBOR
	for _, form := range []string{text, binary} {
		value, err := NewStorage(widgetRow(), form).Encode(obj)
		if err != nil {
			t.Fatal(err)
		}
		if IsCBOR(value) != (form == binary) {
			t.Errorf("%s: %q", form, value)
		}
		if form == binary {
			var want bytes.Buffer
			if err := clientsCBOR().Encode(obj, &want); err != nil || !bytes.Equal(value, want.Bytes()) {
				t.Errorf("got %x, want upstream's %x, %v", value, want.Bytes(), err)
			}
		}
		for _, reader := range []string{text, binary} {
			got, err := NewStorage(widgetRow(), reader).Decode(value)
			if err != nil || !apiequality.Semantic.DeepEqual(got, obj) {
				t.Errorf("%s: got %v, %v", form, got, err)
			}
		}
		if _, err := NewStorage(podRow(), form).Decode(value); err == nil {
			t.Errorf("%s: a pod was made of a widget", form)
		}
	}
}
