package codec

import (
	"bytes"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kserializer "k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	restwatch "k8s.io/client-go/rest/watch"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

var (
	podKind     = corev1.SchemeGroupVersion.WithKind("Pod")
	podListKind = corev1.SchemeGroupVersion.WithKind("PodList")
)

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: "u", CreationTimestamp: metav1.NewTime(time.Unix(1_000_000_000, 0).UTC()),
			Labels: map[string]string{"a": "<b>", "c": "d"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func podRow() *api.Kind {
	return &api.Kind{
		Name: "Pod", Resource: "pods", Prefix: "pods", Namespaced: true, Hub: corev1.SchemeGroupVersion,
		Versions: []api.Version{
			{GroupVersion: corev1.SchemeGroupVersion, New: func() api.Object { return &corev1.Pod{} }}},
	}
}

// upstream encodes as apimachinery's own serializers do.
func upstream(t *testing.T, m MediaType, obj runtime.Object) []byte {
	t.Helper()
	scheme := NewScheme()
	info, ok := runtime.SerializerInfoForMediaType(kserializer.NewCodecFactory(scheme).SupportedMediaTypes(),
		m.String())
	if !ok {
		t.Fatal("no serializer for", m)
	}
	out, err := runtime.Encode(info.Serializer, obj)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestObjectsAreWrittenAsUpstreamDoes(t *testing.T) {
	codec := NewCodec(NewScheme())
	for _, m := range []MediaType{JSON, YAML, Protobuf} {
		var got bytes.Buffer
		bare := pod("p")
		bare.TypeMeta = metav1.TypeMeta{}
		if err := codec.Encode(&got, bare, podKind, m); err != nil {
			t.Fatal(err)
		}
		if want := upstream(t, m, pod("p")); !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: got %q, want %q", m, got.Bytes(), want)
		}
		if bare.Kind != "" {
			t.Errorf("%s: the object was changed", m)
		}
		back, gvk, err := codec.Decode(got.Bytes(), m, nil, nil, true)
		if err != nil || *gvk != podKind {
			t.Fatalf("%s: %v, %v", m, gvk, err)
		}
		if back.GetObjectKind().SetGroupVersionKind(podKind); !apiequality.Semantic.DeepEqual(back, pod("p")) {
			t.Errorf("%s: came back as %v", m, back)
		}
	}
}

func TestListsAreWrittenAsUpstreamDoes(t *testing.T) {
	remaining := int64(3)
	for _, n := range []int{0, 1, 3} {
		list := &corev1.PodList{
			TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"},
			ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "x", RemainingItemCount: &remaining},
			Items:    []corev1.Pod{},
		}
		var pods []*corev1.Pod
		for i := range n {
			p := pod("p" + string(rune('0'+i)))
			pods = append(pods, p)
			item := *p.DeepCopy()
			item.TypeMeta = metav1.TypeMeta{}
			list.Items = append(list.Items, item)
		}
		for _, m := range []MediaType{JSON, YAML, Protobuf} {
			var got bytes.Buffer
			err := WriteList(&got, m,
				List{Kind: podListKind, Item: podKind, Meta: list.ListMeta, Items: bodies(pods, m)})
			if err != nil {
				t.Fatal(err)
			}
			if want := upstream(t, m, list); !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%s, %d items: got %q, want %q", m, n, got.Bytes(), want)
			}
		}
	}
}

func bodies(pods []*corev1.Pod, m MediaType) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, p := range pods {
			if !yield(Body(p, podKind, m)) {
				return
			}
		}
	}
}

func TestTable(t *testing.T) {
	want := &metav1.Table{
		TypeMeta:          metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"},
		ListMeta:          metav1.ListMeta{ResourceVersion: "7"},
		ColumnDefinitions: []metav1.TableColumnDefinition{{Name: "Name", Type: "string"}},
		Rows: []metav1.TableRow{
			{Cells: []any{"p", 1, nil}, Object: runtime.RawExtension{Raw: []byte(`{"kind":"Pod"}`)}},
			{Cells: []any{"<q>", "ä\"\\\n", true, int64(-3), int32(4), 1.5, ""}},
			{Cells: []any{"ended"}, Conditions: []metav1.TableRowCondition{
				{Type: metav1.RowCompleted, Status: metav1.ConditionTrue, Reason: "Succeeded"}}},
		},
	}
	var got bytes.Buffer
	err := WriteTable(&got, JSON, Table{
		Kind: TableKind("v1"), Meta: want.ListMeta, Columns: want.ColumnDefinitions,
		Rows: func(yield func(Row, error) bool) {
			for _, row := range want.Rows {
				line, err := NewTableRow(row.Cells, row.Conditions)
				if !yield(Row{Cells: line, Object: row.Object.Raw}, err) {
					return
				}
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := upstream(t, JSON, want); !bytes.Equal(got.Bytes(), want) {
		t.Errorf("got %s, want %s", got.Bytes(), want)
	}
}

// TestStorageGolden holds the bytes in etcd fast: whatever changes them makes other API servers' data unreadable.
func TestStorageGolden(t *testing.T) {
	s := NewStorage(podRow(), runtime.ContentTypeProtobuf)
	got, err := s.Encode(pod("p"))
	if err != nil {
		t.Fatal(err)
	}
	if want := upstream(t, Protobuf, pod("p")); !bytes.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, value := range [][]byte{got, upstream(t, JSON, pod("p"))} {
		back, err := s.Decode(value)
		if err != nil {
			t.Fatal(err)
		}
		if !apiequality.Semantic.DeepEqual(back, pod("p")) {
			t.Errorf("came back as %v", back)
		}
	}
	if _, err := s.Decode(upstream(t, Protobuf,
		&appsv1.Deployment{TypeMeta: metav1.TypeMeta{Kind: "Deployment", APIVersion: "apps/v1"}})); err == nil {
		t.Error("a Deployment was read as a Pod")
	}
	versioned := pod("p")
	versioned.ResourceVersion = "1"
	if _, err := s.Encode(versioned); err == nil {
		t.Error("a resource version was stored")
	}
}

func TestStorageOfOtherVersionsAndCustomResources(t *testing.T) {
	gv := schema.GroupVersion{Group: "example.com", Version: "v1"}
	old := schema.GroupVersion{Group: "example.com", Version: "v1beta1"}
	row := &api.Kind{Name: "Thing", Resource: "things", Hub: gv, Versions: []api.Version{
		{GroupVersion: gv, New: func() api.Object { return &unstructured.Unstructured{} }},
		{GroupVersion: old, New: func() api.Object { return &unstructured.Unstructured{} },
			ToHub: func(o api.Object) (api.Object, error) {
				u := o.(*unstructured.Unstructured).DeepCopy()
				u.SetAnnotations(map[string]string{"converted": "yes"})
				return u, nil
			}},
	}}
	s := NewStorage(row, runtime.ContentTypeProtobuf)
	thing := &unstructured.Unstructured{
		Object: map[string]any{"metadata": map[string]any{"name": "t"}, "spec": map[string]any{"n": int64(1)}}}
	value, err := s.Encode(thing)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"t"},"spec":{"n":1}}` +
		"\n"; string(value) != want {
		t.Errorf("got %q, want %q", value, want)
	}
	back, err := s.Decode(bytes.Replace(value, []byte("com/v1"), []byte("com/v1beta1"), 1))
	if err != nil {
		t.Fatal(err)
	}
	if back.GetAnnotations()["converted"] != "yes" || back.GetObjectKind().GroupVersionKind() != gv.WithKind("Thing") {
		t.Errorf("came back as %v", back)
	}
}

// TestStoredMedia: what is written is as configured, and is read again whatever it is; custom resources are always
// JSON.
func TestStoredMedia(t *testing.T) {
	gv := schema.GroupVersion{Group: "example.com", Version: "v1"}
	custom := &api.Kind{Name: "Thing", Resource: "things", Hub: gv, Versions: []api.Version{
		{GroupVersion: gv, New: func() api.Object { return &unstructured.Unstructured{} }},
	}}
	reader := NewStorage(podRow(), runtime.ContentTypeProtobuf)
	for media, begins := range map[string]string{
		runtime.ContentTypeProtobuf: "k8s\x00", runtime.ContentTypeJSON: `{"`,
		runtime.ContentTypeYAML: "apiVersion: v1\nkind: Pod\n",
	} {
		value, err := NewStorage(podRow(), media).Encode(pod("a"))
		if err != nil || !strings.HasPrefix(string(value), begins) {
			t.Errorf("%s: got %q, %v", media, value, err)
		}
		back, err := reader.Decode(value)
		if err != nil || back.GetName() != "a" {
			t.Errorf("%s: came back as %v, %v", media, back, err)
		}
		value, err = NewStorage(custom,
			media).Encode(&unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "t"}}})
		if err != nil || !strings.HasPrefix(string(value), `{"apiVersion":"example.com/v1"`) {
			t.Errorf("%s: custom: got %q, %v", media, value, err)
		}
	}
}

// TestWatchEvents reads both framings with client-go's decoder.
func TestWatchEvents(t *testing.T) {
	scheme := NewScheme()
	factory := kserializer.NewCodecFactory(scheme)
	for _, m := range []MediaType{JSON, Protobuf} {
		var stream []byte
		for _, name := range []string{"a", "b"} {
			body, err := Body(pod(name), podKind, m)
			if err != nil {
				t.Fatal(err)
			}
			stream = AppendWatchEvent(stream, m, "ADDED", podKind, body)
		}
		info, _ := runtime.SerializerInfoForMediaType(factory.SupportedMediaTypes(), m.String())
		frames := info.StreamSerializer.Framer.NewFrameReader(io.NopCloser(bytes.NewReader(stream)))
		decoder := restwatch.NewDecoder(streaming.NewDecoder(frames, info.StreamSerializer.Serializer),
			factory.UniversalDeserializer())
		for _, name := range []string{"a", "b"} {
			event, obj, err := decoder.Decode()
			if err != nil {
				t.Fatalf("%s: %v", m, err)
			}
			if p := obj.(*corev1.Pod); event != "ADDED" || p.Name != name || p.Spec.Containers[0].Image != "i" {
				t.Errorf("%s: got %s %v", m, event, p)
			}
		}
		if _, _, err := decoder.Decode(); err != io.EOF {
			t.Errorf("%s: after the end: %v", m, err)
		}
	}
}

func TestStrictDecoding(t *testing.T) {
	codec := NewCodec(NewScheme())
	const text = `{"kind":"Pod","apiVersion":"v1","spec":{"nonsense":1,"nodeName":"a","nodeName":"b"}}`
	obj, _, err := codec.Decode([]byte(text), JSON, nil, &corev1.Pod{}, true)
	if !runtime.IsStrictDecodingError(err) || obj == nil {
		t.Fatalf("got %v, %v", obj, err)
	}
	for _, want := range []string{`unknown field "spec.nonsense"`, `duplicate field "spec.nodeName"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q doesn't tell %q", err, want)
		}
	}
	if _, _, err := codec.Decode([]byte(text), JSON, nil, &corev1.Pod{}, false); err != nil {
		t.Errorf("lenient: %v", err)
	}
	for _, bad := range []string{"", "{", `{"kind":"Pod"}`, `{"apiVersion":"v1","kind":"Pod","spec":{"nodeName":1}}`,
		`{"apiVersion":"v1","kind":"Nothing"}`} {
		if _, _, err := codec.Decode([]byte(bad), JSON, nil, nil, false); err == nil {
			t.Errorf("%q was decoded", bad)
		}
	}
}

func TestNotProtobuf(t *testing.T) {
	_, err := Body(&unstructured.Unstructured{}, podKind, Protobuf)
	if !IsNotProtobuf(err) {
		t.Errorf("got %v", err)
	}
}

func FuzzOpenEnvelope(f *testing.F) {
	body, _ := pod("p").Marshal()
	f.Add(AppendEnvelope(nil, podKind, body))
	f.Add([]byte("k8s\x00"))
	f.Add([]byte("k8s\x00\x0a\x01"))
	codec := protobuf.NewSerializer(NewScheme(), NewScheme())
	f.Fuzz(func(t *testing.T, data []byte) {
		kind, message, err := OpenEnvelope(data)
		if err != nil {
			return
		}
		// What was taken apart can be put together, and says the same to upstream's decoder.
		whole := AppendEnvelope(nil, kind, message)
		again, same, err := OpenEnvelope(whole)
		if err != nil || again != kind || !slices.Equal(same, message) {
			t.Fatalf("%q: %v %q %v", data, again, same, err)
		}
		var unknown runtime.Unknown
		if _, _, err := codec.Decode(whole, nil, &unknown); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
	})
}
