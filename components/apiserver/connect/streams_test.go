package connect

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	streamproxy "k8s.io/apiserver/pkg/util/proxy"
	proxymetrics "k8s.io/apiserver/pkg/util/proxy/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// TestPortQuery: ports come one by one or as a list, and go to the kubelet as a list.
func TestPortQuery(t *testing.T) {
	for _, c := range []struct {
		texts []string
		want  string
	}{{nil, ""}, {[]string{"80"}, "80"}, {[]string{"80,443"}, "80,443"}, {[]string{"80", "443,8080"}, "80,443,8080"}} {
		got, err := portQuery(c.texts)
		if err != nil || got.Get(corev1.PortHeader) != c.want {
			t.Errorf("%v: %v, %v", c.texts, got, err)
		}
	}
	if _, err := portQuery([]string{"80,x"}); err == nil ||
		err.Error() != `cannot convert to []int32: strconv.ParseUint: parsing "x": invalid syntax` {
		t.Errorf("no port: %v", err)
	}
}

// TestBoundedStreams: connections that are taken over are bounded, whether they are passed on or translated.
func TestBoundedStreams(t *testing.T) {
	c, err := New(Config{MaxBytesPerSecond: 7})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if got := c.translator(&url.URL{}, streamproxy.Options{}).MaxBytesPerSec; got != 7 {
		t.Errorf("a translated connection may carry %d bytes per second", got)
	}
}

// TestStreamsAreCounted by who speaks with WebSocket clients.
func TestStreamsAreCounted(t *testing.T) {
	proxymetrics.Register()
	store := &objectstest.Store{}
	for name, features := range map[string][]string{"knows": {extendsWebSockets}, "not": nil} {
		store.Put(corev1.Resource("nodes"),
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
				DeclaredFeatures: features,
				Addresses:        []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
			}})
		store.Put(corev1.Resource("pods"),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{
				NodeName: name, Containers: []corev1.Container{{Name: "c"}},
			}})
	}
	for plain, want := range map[bool]map[string]float64{
		false: {"exec by proxied_to_kubelet": 1, "exec by translated_at_apiserver": 1,
			"attach by proxied_to_kubelet": 1, "attach by translated_at_apiserver": 1,
			"portforward by proxied_to_kubelet": 1, "portforward by translated_at_apiserver": 1},
		true: {"exec by proxied_to_kubelet": 1, "exec by translated_at_apiserver": 1, "attach by proxied_to_kubelet": 1,
			"attach by translated_at_apiserver": 1},
	} {
		c, err := New(Config{Objects: store, AddressTypes: []string{string(corev1.NodeInternalIP)},
			PlainPortForward: plain})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		before := countedStreams(t)
		for _, verb := range []string{"exec", "attach", "portforward"} {
			for _, name := range []string{"knows", "not"} {
				r := httptest.NewRequest(http.MethodPost, "/?stdout=true", nil) // which asks for no upgrade
				if err := c.Handlers()["pods/"+verb](httptest.NewRecorder(), r, "ns", name, ""); err != nil {
					t.Errorf("%s of %s: %v", verb, name, err)
				}
			}
		}
		got := countedStreams(t)
		maps.DeleteFunc(got, func(what string, n float64) bool { return n == before[what] })
		for what := range got {
			got[what] -= before[what]
		}
		if !maps.Equal(got, want) {
			t.Errorf("plain %v: %v, want %v", plain, got, want)
		}
	}
}

func countedStreams(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "apiserver_websocket_streaming_requests_total" {
			continue
		}
		for _, m := range f.Metric {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			out[labels["subresource"]+" by "+labels["proxy_type"]] = m.GetCounter().GetValue()
		}
	}
	return out
}
