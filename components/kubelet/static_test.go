package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	kruntime "quintet.dev/quintet/components/kubelet/runtime"
)

// staticClient is an API in memory that gives pods UIDs and refuses writes to another UID, as the API server does, and
// none of whose calls succeed while away is set.
func staticClient() (client *fake.Clientset, away *atomic.Bool) {
	client, away = fake.NewClientset(), &atomic.Bool{}
	var count atomic.Int32
	client.PrependReactor("create", "pods", func(action ktesting.Action) (bool, runtime.Object, error) {
		pod := action.(ktesting.CreateAction).GetObject().(*v1.Pod)
		pod.UID = types.UID(fmt.Sprintf("api-%d", count.Add(1)))
		return false, nil, nil
	})
	other := func(action ktesting.Action, name string, uid types.UID) (bool, runtime.Object, error) {
		object, err := client.Tracker().Get(action.GetResource(), action.GetNamespace(), name)
		if pod, ok := object.(*v1.Pod); err == nil && ok && uid != "" && pod.UID != uid {
			return true, nil, apierrors.NewConflict(v1.Resource("pods"), name, errors.New("another UID"))
		}
		return false, nil, nil
	}
	client.PrependReactor("patch", "pods", func(action ktesting.Action) (bool, runtime.Object, error) {
		patch := action.(ktesting.PatchAction)
		var pod v1.Pod
		if err := json.Unmarshal(patch.GetPatch(), &pod); err != nil {
			return true, nil, err
		}
		return other(action, patch.GetName(), pod.UID)
	})
	client.PrependReactor("delete", "pods", func(action ktesting.Action) (bool, runtime.Object, error) {
		remove := action.(ktesting.DeleteActionImpl)
		if p := remove.DeleteOptions.Preconditions; p != nil && p.UID != nil {
			return other(action, remove.Name, *p.UID)
		}
		return false, nil, nil
	})
	client.PrependReactor("*", "*", func(ktesting.Action) (bool, runtime.Object, error) {
		return away.Load(), nil, errors.New("connection refused")
	})
	return client, away
}

func manifest(t *testing.T, dir, name, image string) {
	t.Helper()
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: ns}\n" +
		"spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: '" + image + "'}]}\n"
	temporary := filepath.Join(dir, "."+name)
	if err := os.WriteFile(temporary, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temporary, filepath.Join(dir, name+".yaml")); err != nil {
		t.Fatal(err)
	}
}

// runs returns the running containers of the node, by UID of their pod.
func (r *rig) runs() map[types.UID]kruntime.Container {
	pods, err := r.engine.Pods(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[types.UID]kruntime.Container{}
	for _, pod := range pods {
		for _, c := range pod.Containers {
			if c.State == kruntime.Running {
				out[pod.UID] = c
			}
		}
	}
	return out
}

func (r *rig) awaitMirror(name string) *v1.Pod {
	r.t.Helper()
	p := r.awaitPhase(name, v1.PodRunning)
	uid := types.UID(p.Annotations[v1.MirrorPodAnnotationKey])
	if uid == "" || r.runs()[uid].ID == "" {
		r.t.Fatalf("%s is no mirror pod of what runs: %v, %v", name, p.Annotations, r.runs())
	}
	return p
}

// watches waits until the kubelet watches its pods: the API in memory tells only then of what changes.
func (r *rig) watches() {
	r.t.Helper()
	r.await("pods are watched", func() bool {
		for _, action := range r.client.Actions() {
			if action.Matches("watch", "pods") {
				return true
			}
		}
		return false
	})
}

func TestStaticPodRunsBeforeTheAPIServer(t *testing.T) {
	dir, engine := t.TempDir(), newEngine()
	manifest(t, dir, "web", "image:1")
	client, away := staticClient()
	away.Store(true)
	r := begin(t, client, engine, func(c *Config) { c.PodManifestPath = dir })
	r.await("the pod runs", func() bool { return len(r.runs()) == 1 })
	before := r.runs()
	away.Store(false)
	mirror := r.awaitMirror("web-n1")
	node, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if o := mirror.OwnerReferences; len(o) != 1 || o[0].Name != "n1" || o[0].UID != node.UID {
		t.Errorf("owners %+v", o)
	}
	r.stop()
	second := begin(t, client, engine, func(c *Config) { c.PodManifestPath = dir })
	second.create("ordinary", nil)
	second.awaitPhase("ordinary", v1.PodRunning)
	for uid, c := range before {
		if now := second.runs()[uid]; now.ID != c.ID {
			t.Errorf("the pod was restarted with the kubelet: %+v, before %+v", now, c)
		}
	}
	if again := second.awaitMirror("web-n1"); again.UID != mirror.UID {
		t.Errorf("mirror pod %s, before %s", again.UID, mirror.UID)
	}
}

func TestMirrorPodComesBack(t *testing.T) {
	dir := t.TempDir()
	client, _ := staticClient()
	r := begin(t, client, newEngine(), func(c *Config) { c.PodManifestPath = dir })
	r.watches()
	manifest(t, dir, "web", "image:1")
	first, before := r.awaitMirror("web-n1"), r.runs()
	if err := client.CoreV1().Pods("ns").Delete(t.Context(), "web-n1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	back := func(old *v1.Pod) *v1.Pod {
		t.Helper()
		r.await("the mirror pod is back", func() bool {
			p := r.pod("web-n1")
			return p != nil && p.UID != old.UID && p.Status.Phase == v1.PodRunning
		})
		return r.awaitMirror("web-n1")
	}
	second := back(first).DeepCopy()
	second.DeletionTimestamp, second.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64(30))
	if _, err := client.CoreV1().Pods("ns").Update(t.Context(), second, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	third := back(second).DeepCopy()
	third.Annotations[v1.MirrorPodAnnotationKey] = "forged"
	if _, err := client.CoreV1().Pods("ns").Update(t.Context(), third, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	back(third)
	for uid, c := range before {
		if now := r.runs()[uid]; now.ID != c.ID {
			t.Errorf("the static pod was stopped with its mirror: %+v, before %+v", now, c)
		}
	}
}

func TestManifestsChangeAndGo(t *testing.T) {
	dir := t.TempDir()
	client, _ := staticClient()
	r := begin(t, client, newEngine(), func(c *Config) { c.PodManifestPath = dir })
	r.watches()
	manifest(t, dir, "web", "image:1")
	manifest(t, dir, "stays", "image:1")
	first := r.awaitMirror("web-n1")
	manifest(t, dir, "web", "image:2")
	r.await("the changed pod runs alone", func() bool {
		p := r.pod("web-n1")
		return p != nil && p.UID != first.UID && p.Spec.Containers[0].Image == "image:2" &&
			p.Status.Phase == v1.PodRunning && len(r.runs()) == 2
	})
	if err := os.Remove(filepath.Join(dir, "web.yaml")); err != nil {
		t.Fatal(err)
	}
	r.await("the pod is gone", func() bool { return r.pod("web-n1") == nil && len(r.runs()) == 1 })
	r.awaitMirror("stays-n1")
}

func TestMirrorPodOfAManifestThatWentMeanwhile(t *testing.T) {
	dir, engine := t.TempDir(), newEngine()
	manifest(t, dir, "web", "image:1")
	client, _ := staticClient()
	r := begin(t, client, engine, func(c *Config) { c.PodManifestPath = dir })
	r.awaitMirror("web-n1")
	r.stop()
	if err := os.Remove(filepath.Join(dir, "web.yaml")); err != nil {
		t.Fatal(err)
	}
	r = begin(t, client, engine, func(c *Config) { c.PodManifestPath = dir })
	r.await("pod and mirror are gone", func() bool { return r.pod("web-n1") == nil && len(r.runs()) == 0 })
}

func TestStaticPodsOfAPage(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Node") != "n1" {
			http.Error(w, "who asks?", http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: page, namespace: ns}\n" +
			"spec: {containers: [{name: c, image: 'image:1'}]}\n"))
	}))
	defer page.Close()
	client, _ := staticClient()
	r := begin(t, client, newEngine(), func(c *Config) {
		c.ManifestURL, c.ManifestURLHeader = page.URL, map[string][]string{"X-Node": {"n1"}}
	})
	if p := r.awaitMirror("page-n1"); p.Annotations["kubernetes.io/config.source"] != "http" {
		t.Errorf("annotations %v", p.Annotations)
	}
}
