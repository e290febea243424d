package healthcheck

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

var loopback = []netip.Addr{netip.MustParseAddr("127.0.0.1")}

// freePort returns a port that was free a moment ago.
func freePort(t *testing.T) uint16 {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).AddrPort().Port()
}

func get(t *testing.T, client *http.Client, url string) (*http.Response, string) {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestServices(t *testing.T) {
	defer goleak.VerifyNone(t)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	healthy := true
	services := NewServices(loopback, func() bool { return healthy })
	a, b := types.NamespacedName{Namespace: "ns", Name: "a"}, types.NamespacedName{Namespace: "ns", Name: "b"}
	port := freePort(t)
	url := fmt.Sprintf("http://127.0.0.1:%d/", port)
	sync := func(want map[types.NamespacedName]Service) {
		t.Helper()
		if err := services.Sync(t.Context(), want); err != nil {
			t.Fatal(err)
		}
	}
	sync(map[types.NamespacedName]Service{a: {Port: port, LocalEndpoints: 2}})
	resp, body := get(t, client, url)
	const want = `{
	"service": {
		"namespace": "ns",
		"name": "a"
	},
	"localEndpoints": 2,
	"serviceProxyHealthy": true
}`
	if resp.StatusCode != http.StatusOK || body != want || resp.Header.Get("X-Load-Balancing-Endpoint-Weight") != "2" ||
		resp.Header.Get("X-Content-Type-Options") != "nosniff" ||
		resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%v: %s", resp, body)
	}
	healthy = false
	if resp, _ = get(t, client, url); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("while the proxy is unhealthy: %s", resp.Status)
	}
	healthy = true
	sync(map[types.NamespacedName]Service{a: {Port: port}})
	if resp, _ = get(t, client, url); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("without endpoints: %s", resp.Status)
	}
	sync(map[types.NamespacedName]Service{b: {Port: port, LocalEndpoints: 1}}) // the port moves
	if resp, body = get(t, client, url); resp.StatusCode != http.StatusOK {
		t.Errorf("after the port moved: %s %s", resp.Status, body)
	}
	both := map[types.NamespacedName]Service{a: {Port: port, LocalEndpoints: 1}, b: {Port: port, LocalEndpoints: 1}}
	if err := services.Sync(t.Context(), both); err == nil {
		t.Error("a port for two Services is no error")
	}
	if err := services.Close(); err != nil {
		t.Error(err)
	}
	if _, err := client.Get(url); err == nil {
		t.Error("the server outlives Close")
	}
}

func TestNodeAddresses(t *testing.T) {
	node := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("192.0.2.1")}
	for cidr, want := range map[string]string{
		"10.0.0.0/8": "[10.0.0.1]", "0.0.0.0/0": "[0.0.0.0]", "172.16.0.0/12": "[0.0.0.0]",
	} {
		if got := fmt.Sprint(NodeAddresses([]netip.Prefix{netip.MustParsePrefix(cidr)}, node)); got != want {
			t.Errorf("%s: %s, want %s", cidr, got, want)
		}
	}
}

func TestProxy(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	proxy := NewProxy(clock, time.Minute)
	expect := func(step string, healthz, livez int) {
		t.Helper()
		for path, want := range map[string]int{"/healthz": healthz, "/livez": livez} {
			recorder := httptest.NewRecorder()
			proxy.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
			var health Health
			if err := json.Unmarshal(recorder.Body.Bytes(), &health); err != nil {
				t.Fatal(err)
			}
			if recorder.Code != want || health.Healthy != (want == http.StatusOK) {
				t.Errorf("%s: %s is %d, want %d: %s", step, path, recorder.Code, want, recorder.Body)
			}
			if (health.NodeEligible != nil) != (path == "/healthz") || !health.CurrentTime.Equal(clock.Now()) {
				t.Errorf("%s: %s: %s", step, path, recorder.Body)
			}
			if health.Healthy && !health.LastUpdated.Equal(clock.Now()) {
				t.Errorf("%s: last update of %s is not recent: %s", step, path, recorder.Body)
			}
		}
	}
	step := func(d time.Duration) { clock.SetTime(clock.Now().Add(d)) }
	expect("start", 200, 200)
	proxy.QueuedUpdate(v1.IPv4Protocol)
	step(time.Hour)
	expect("before the first sync", 200, 200)
	proxy.Updated(v1.IPv4Protocol)
	proxy.Updated(v1.IPv6Protocol)
	step(time.Hour)
	expect("nothing to do", 200, 200)
	proxy.QueuedUpdate(v1.IPv6Protocol)
	step(30 * time.Second)
	proxy.QueuedUpdate(v1.IPv6Protocol)
	expect("not late yet", 200, 200)
	step(30 * time.Second)
	proxy.Updated(v1.IPv4Protocol)
	expect("IPv6 is late", 503, 503)
	if health := proxy.Health(); !health.Status[v1.IPv4Protocol].Healthy || health.Status[v1.IPv6Protocol].Healthy {
		t.Errorf("%+v", health)
	}
	proxy.Updated(v1.IPv6Protocol)
	expect("caught up", 200, 200)
	proxy.SyncNode(&v1.Node{Spec: v1.NodeSpec{Taints: []v1.Taint{{Key: toBeDeletedTaint}}}})
	expect("taint", 503, 200)
	proxy.SyncNode(&v1.Node{})
	expect("no taint", 200, 200)
	proxy.SyncNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: clock.Now()}}})
	expect("deletion begins", 503, 200)
	proxy.SyncNode(nil)
	expect("deleted", 503, 200)
}
