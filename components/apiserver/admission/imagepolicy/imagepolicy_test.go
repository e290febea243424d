package imagepolicy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/api/imagepolicy/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// service says no to images called bad, and keeps what it was asked.
type service struct{ asked []v1alpha1.ImageReviewSpec }

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review v1alpha1.ImageReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.asked = append(s.asked, review.Spec)
	review.Status.Allowed = true
	for _, c := range review.Spec.Containers {
		switch c.Image {
		case "bad":
			review.Status = v1alpha1.ImageReviewStatus{Reason: "bad is bad"}
		case "silent":
			review.Status = v1alpha1.ImageReviewStatus{}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

func plugin(t *testing.T, url string, more string) *Plugin {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\nusers: [{name: "+
		"u}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n", url)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := New(fmt.Appendf(nil, "unknown: 1\nimagePolicy: {kubeConfigFile: %q, retryBackoff: 1, colour: red%s}",
		file, more))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func validate(p *Plugin, pod *corev1.Pod, sub string) error {
	return p.Validate(context.Background(),
		admission.NewAttributesRecord(pod, nil, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, "ns", "p",
			corev1.SchemeGroupVersion.WithResource("pods"), sub, admission.Create, nil, false, nil), nil)
}

func podOf(images ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p",
		Annotations: map[string]string{"a": "1", "my.image-policy.k8s.io/ticket": "2"}}}
	for _, image := range images {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Image: image})
	}
	return pod
}

func TestImagesAreJudged(t *testing.T) {
	s := &service{}
	server := httptest.NewServer(s)
	defer server.Close()
	p := plugin(t, server.URL, "")
	for image, want := range map[string]string{
		"good": "", "bad": `pods "p" is forbidden: image policy webhook backend denied one or more images: bad is bad`,
		"silent": `pods "p" is forbidden: one or more images rejected by webhook backend`,
	} {
		for range 2 { // the second answer is remembered
			err := validate(p, podOf("other", image), "")
			if (err == nil) != (want == "") || err != nil && (err.Error() != want || !apierrors.IsForbidden(err)) {
				t.Errorf("%s: got %v, want %q", image, err, want)
			}
		}
	}
	if len(s.asked) != 3 {
		t.Errorf("asked %d times", len(s.asked))
	}
	if got := s.asked[0]; got.Namespace != "ns" || len(got.Annotations) != 1 ||
		got.Annotations["my.image-policy.k8s.io/ticket"] != "2" || len(got.Containers) != 2 {
		t.Errorf("asked %+v", got)
	}
	pod := podOf("bad")
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{
		{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Image: "fresh"}}}
	if err := validate(p, pod, "ephemeralcontainers"); err != nil ||
		!slices.Equal(s.asked[3].Containers, []v1alpha1.ImageReviewContainerSpec{{Image: "fresh"}}) {
		t.Errorf("ephemeral containers: %v, %+v", err, s.asked)
	}
	if err := validate(p, podOf("bad"), "status"); err != nil {
		t.Errorf("status: %v", err)
	}
}

func TestNobodyToAsk(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	if err := validate(plugin(t, server.URL, ""), podOf("a"), ""); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
	pod := podOf("a")
	if err := validate(plugin(t, server.URL, ", defaultAllow: true"), pod, ""); err != nil ||
		pod.Annotations[failedOpenPod] != "true" {
		t.Errorf("got %v, %v", err, pod.Annotations)
	}
}

func TestBadConfig(t *testing.T) {
	for file, want := range map[string]string{
		"":                                     "no config specified",
		"imagePolicy: {allowTTL: 3600}":        "valid value is between 1s and 30m0s, got 1h0m0s",
		"imagePolicy: {kubeConfigFile: /none}": "/none",
	} {
		if _, err := New([]byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", file, err, want)
		}
	}
}
