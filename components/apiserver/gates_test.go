package apiserver_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	clientfeatures "k8s.io/client-go/features"
	features "k8s.io/client-go/features/testing"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

func gated(set map[string]bool) func(*options.Config) {
	return func(c *options.Config) { c.FeatureGates = set }
}

// with sends a request with headers, given in pairs; the body is read, but not decompressed.
func (f *fixture) with(t *testing.T, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://"+f.server.Addr().String()+path,
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer admin")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return f.answer(t, r)
}

func TestGateAPIResponseCompression(t *testing.T) {
	for _, on := range []bool{true, false} {
		f := start(t, gated(map[string]bool{"APIResponseCompression": on}))
		large := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"large"},"data":{"a":"` +
			strings.Repeat("a", 200<<10) + `"}}`
		if resp, text := f.with(t, "POST", "/api/v1/namespaces/default/configmaps", large, "Content-Type",
			"application/json"); resp.StatusCode != 201 {
			t.Fatalf("%s", text)
		}
		for _, path := range []string{"/api/v1/namespaces/default/configmaps",
			"/api/v1/namespaces/default/configmaps/large"} {
			resp, _ := f.with(t, "GET", path, "", "Accept-Encoding", "gzip")
			if zipped := resp.Header.Get("Content-Encoding") == "gzip"; zipped != on {
				t.Errorf("%v: GET %s: compressed %v", on, path, zipped)
			}
		}
	}
}

// TestGateCBOR has a client of custom resources speak nothing else, and looks at what lies in the store.
func TestGateCBOR(t *testing.T) {
	features.SetFeatureDuringTest(t, clientfeatures.ClientsAllowCBOR, true)
	features.SetFeatureDuringTest(t, clientfeatures.ClientsPreferCBOR, true)
	store := memory.New(clock.RealClock{})
	f := startDynamic(t, gated(map[string]bool{"CBORServingAndStorage": true}),
		func(c *options.Config) { c.Store = store })
	f.define(t, widgetDefinition(t))
	spoken := &mediaTypes{}
	config := f.as("admin")
	config.Wrap(spoken.wrap)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	in := client.Resource(widgets).Namespace("default")
	events, err := in.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	made, err := in.Create(t.Context(), widget(t, "a", `spec: {color: red}`),
		metav1.CreateOptions{FieldManager: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if e := <-events.ResultChan(); e.Type != watch.Added || !apiequality.Semantic.DeepEqual(e.Object, made) {
		t.Errorf("the watch shows %v, want %v", e, made)
	}
	applied := widget(t, "a", `spec: {color: red}`)
	applied.SetLabels(map[string]string{"by": "apply"})
	if made, err = in.Apply(t.Context(), "a", applied,
		metav1.ApplyOptions{FieldManager: "other", Force: true}); err != nil || made.GetLabels()["by"] != "apply" {
		t.Errorf("applied: %v, %v", made, err)
	}
	list, err := in.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || !apiequality.Semantic.DeepEqual(&list.Items[0], made) {
		t.Errorf("the list shows %v, %v", list, err)
	}
	if err := in.Delete(t.Context(), "none", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{"application/cbor", "application/cbor-seq", "application/apply-patch+cbor"} {
		if !spoken.saw(want) {
			t.Errorf("nothing was in %s", want)
		}
	}
	if spoken.saw("application/json") {
		t.Error("something was in JSON")
	}
	page, err := store.List(t.Context(),
		storage.Range{Prefix: "/registry/" + widgets.Group + "/" + widgets.Resource + "/"})
	if err != nil || len(page.Items) != 1 || !codec.IsCBOR(page.Items[0].Value) {
		t.Errorf("stored: %v, %v", page.Items, err)
	}
}

// TestCBORIsOff: without its gate it is in no list of media types, and refused.
func TestCBORIsOff(t *testing.T) {
	f := start(t)
	const path = "/api/v1/namespaces/default/configmaps"
	for _, c := range []struct {
		method, path, header, value string
		code                        int
	}{
		{"GET", path, "Accept", "application/cbor", 406},
		{"GET", path + "?watch=1", "Accept", "application/cbor-seq", 406},
		{"GET", "/apis/apps/v1", "Accept", "application/cbor", 406},
		{"POST", path, "Content-Type", "application/cbor", 415},
		{"DELETE", path + "/kube-root-ca.crt", "Content-Type", "application/cbor", 415},
		{"PATCH", path + "/a?fieldManager=m", "Content-Type", "application/apply-patch+cbor", 415},
	} {
		resp, text := f.with(t, c.method, c.path, "\xa0", c.header, c.value)
		if resp.StatusCode != c.code || strings.Contains(text, "cbor") {
			t.Errorf("%s %s: %d %s", c.method, c.path, resp.StatusCode, text)
		}
	}
}

// TestPatchesThatCBORHasNot: what kind of patch it is comes before the form of the answer; where no kind of object has
// such patches, the answer isn't in CBOR either.
func TestPatchesThatCBORHasNot(t *testing.T) {
	f := startDynamic(t, gated(map[string]bool{"CBORServingAndStorage": true}))
	f.define(t, widgetDefinition(t))
	const builtIn, custom = "/api/v1/namespaces/default/configmaps/a", "/apis/example.com/v1/namespaces/default/widgets/a"
	for _, c := range []struct{ path, accept, media string }{
		{builtIn, "application/cbor", "application/json"},
		{builtIn, "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf"},
		{custom, "application/cbor", "application/cbor"},
		{custom, "application/cbor;as=Bogus;g=meta.k8s.io;v=v1", "application/json"},
	} {
		resp, text := f.with(t, "PATCH", c.path, "{}", "Content-Type", "application/merge-patch+cbor", "Accept",
			c.accept)
		if got := resp.Header.Get("Content-Type"); resp.StatusCode != 415 || got != c.media {
			t.Errorf("%s as %s: %d %s %s", c.path, c.accept, resp.StatusCode, got, text)
		}
	}
}

// mediaTypes notes in which forms bodies go and come.
type mediaTypes struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (m *mediaTypes) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		m.note(r.Header)
		resp, err := next.RoundTrip(r)
		if err == nil {
			m.note(resp.Header)
		}
		return resp, err
	})
}

func (m *mediaTypes) note(h http.Header) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil {
		m.seen = map[string]bool{}
	}
	m.seen[h.Get("Content-Type")] = true
}

func (m *mediaTypes) saw(media string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen[media]
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestGateWatchList: without it, watches can't ask to begin with what exists.
func TestGateWatchList(t *testing.T) {
	for _, on := range []bool{true, false} {
		client := start(t, gated(map[string]bool{"WatchList": on})).client(t)
		w, err := client.CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{
			SendInitialEvents: new(true), AllowWatchBookmarks: true,
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		})
		if !on {
			if !apierrors.IsInvalid(err) ||
				!strings.Contains(err.Error(),
					"sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled") {
				t.Errorf("off: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		for ended := false; !ended; {
			e, open := <-w.ResultChan()
			ns, ok := e.Object.(*corev1.Namespace)
			if !open || !ok || e.Type != watch.Added && e.Type != watch.Bookmark {
				t.Fatalf("got %v before the end of what there is", e)
			}
			ended = e.Type == watch.Bookmark && ns.Annotations[metav1.InitialEventsAnnotationKey] == "true"
		}
	}
}

func TestGateAPIServerIdentity(t *testing.T) {
	for _, on := range []bool{true, false} {
		f := start(t, gated(map[string]bool{"APIServerIdentity": on, "UnknownVersionInteroperabilityProxy": on}))
		_, text := f.with(t, "GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", "")
		if told := strings.Contains(text, `"apiserver.kubernetes.io/identity"`); told != on {
			t.Errorf("%v: %s", on, text)
		}
	}
}

// TestGateWebSocketPermission: with it, who may only get pods/exec doesn't get a shell by a WebSocket.
func TestGateWebSocketPermission(t *testing.T) {
	for _, on := range []bool{true, false} {
		f := start(t, gated(map[string]bool{"AuthorizePodWebsocketUpgradeCreatePermission": on}))
		for path, body := range map[string]string{
			"clusterroles":        `{"metadata":{"name":"look"},"rules":[{"apiGroups":[""],"resources":["pods/exec"],"verbs":["get"]}]}`,
			"clusterrolebindings": `{"metadata":{"name":"look"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"look"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"alice"}]}`,
		} {
			if resp, text := f.with(t, "POST", "/apis/rbac.authorization.k8s.io/v1/"+path, body, "Content-Type",
				"application/json"); resp.StatusCode != 201 {
				t.Fatalf("%s", text)
			}
		}
		eventually(t, "the role counts", func() bool {
			_, text := f.with(t, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
				`{"spec":{"resourceAttributes":{"namespace":"default","verb":"get","resource":"pods","subresource":"exec"}}}`,
				"Authorization", "Bearer alice", "Content-Type", "application/json")
			return strings.Contains(text, `"allowed":true`)
		})
		// There is no such pod: the question is who may look for it.
		resp, text := f.with(t, "GET", "/api/v1/namespaces/default/pods/none/exec?command=sh&stdout=1", "",
			"Authorization", "Bearer alice", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version",
			"13",
			"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol", "v5.channel.k8s.io")
		if want := map[bool]int{true: 403, false: 404}[on]; resp.StatusCode != want {
			t.Errorf("%v: %d %s", on, resp.StatusCode, text)
		}
	}
}

// TestGatesOfOthers: what clusters set for all their components keeps no API server from starting, and is told as it
// was set.
func TestGatesOfOthers(t *testing.T) {
	f := start(t, gated(map[string]bool{"KubeletSeparateDiskGC": false, "OpenAPIEnums": false}))
	if text := f.text(t, "/metrics"); !strings.Contains(text,
		`kubernetes_feature_enabled{name="KubeletSeparateDiskGC",stage="BETA"} 0`) {
		t.Error("the metric tells otherwise")
	}
	if text := f.text(t, "/openapi/v3/api/v1"); strings.Contains(text, "Possible enum values") {
		t.Error("values are told of")
	}
}

func TestGateHPAScaleToZero(t *testing.T) {
	for on, want := range map[bool]string{
		true:  "must specify at least one Object or External metric to support scaling to zero replicas",
		false: "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
	} {
		f := start(t, gated(map[string]bool{"HPAScaleToZero": on}))
		scalers := f.client(t).AutoscalingV2().HorizontalPodAutoscalers("default")
		scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
		scaler.Spec.MinReplicas, scaler.Spec.MaxReplicas = new(int32), 3
		scaler.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1",
			Kind: "Deployment", Name: "d"}
		if _, err := scalers.Create(t.Context(), scaler, metav1.CreateOptions{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", on, err)
		}
		scaler.Spec.Metrics = []autoscalingv2.MetricSpec{
			{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
				Metric: autoscalingv2.MetricIdentifier{Name: "waiting"},
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType,
					Value: resource.NewQuantity(1, resource.DecimalSI)},
			}}}
		if _, err := scalers.Create(t.Context(), scaler, metav1.CreateOptions{}); (err == nil) != on {
			t.Errorf("%v: %v", on, err)
		}
	}
}
