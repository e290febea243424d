package suite

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TestProbeKubelets asks a server that shows the configuration of one kubelet and not of the other.
func TestProbeKubelets(t *testing.T) {
	node := func(name string, pages string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: corev1.ResourceList{"hugepages-2Mi": resource.MustParse(pages),
				"hugepages-1Gi": resource.MustParse("0")}}}
	}
	for name, test := range map[string]struct {
		config, pages string
		want          map[Feature]bool
	}{
		"all": {`{"containerLogMaxSize":"10Mi","staticPodPath":"/manifests","podPidsLimit":64}`, "4Mi",
			map[Feature]bool{KubeletConfigs: true, StaticPods: true, PIDLimit: true, HasHugePages: true}},
		"no limit":  {`{"containerLogMaxSize":"10Mi","podPidsLimit":-1}`, "0", map[Feature]bool{KubeletConfigs: true}},
		"not shown": {"", "0", map[Feature]bool{}},
	} {
		mux := http.NewServeMux()
		answer := func(w http.ResponseWriter, object any) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(object)
		}
		mux.HandleFunc("GET /api/v1/nodes", func(w http.ResponseWriter, _ *http.Request) {
			answer(w, corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"},
				Items: []corev1.Node{node("silent", "0"), node("open", test.pages)}})
		})
		mux.HandleFunc("GET /api/v1/nodes/{name}/proxy/configz", func(w http.ResponseWriter, r *http.Request) {
			if r.PathValue("name") == "silent" || test.config == "" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			answer(w, map[string]json.RawMessage{"kubeletconfig": json.RawMessage(test.config)})
		})
		server := httptest.NewServer(mux)
		c, err := Connect(&rest.Config{Host: server.URL}, "image")
		if err != nil {
			t.Fatal(err)
		}
		if err := c.probeKubelets(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, feature := range []Feature{KubeletConfigs, StaticPods, PIDLimit, HasHugePages} {
			if c.Features[feature] != test.want[feature] {
				t.Errorf("%s: %s is %t", name, feature, c.Features[feature])
			}
		}
		server.Close()
	}
}
