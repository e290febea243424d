package cluster

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/score"
)

// entry waits until one is recorded that is as wanted.
func entry(ctx context.Context, t *testing.T, r *score.Recorder, what string, is func(score.Entry) bool) score.Entry {
	t.Helper()
	for from := 0; ; {
		entries, next, err := r.Next(ctx, from)
		if err != nil {
			t.Fatalf("%s is not recorded: %v; there is\n%s", what, err, lines(r.Score()))
		}
		if i := slices.IndexFunc(entries, is); i >= 0 {
			return entries[i]
		}
		from = next
	}
}

func lines(s *score.Score) string {
	var b strings.Builder
	for _, e := range s.Entries {
		b.WriteString(e.Line() + "\n")
	}
	return b.String()
}

func of(kind, name string, verb score.Verb) func(score.Entry) bool {
	return func(e score.Entry) bool {
		return e.Object.Kind == kind && strings.HasPrefix(e.Object.Name, name) && e.Verb == verb
	}
}

func rollout(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "quintet/testimage:dev"}}}}}}
}

// TestRecordTellsWhoWroteWhat follows a Deployment down to its pods, and an object of a kind that comes later.
func TestRecordTellsWhoWroteWhat(t *testing.T) {
	for _, store := range []Store{Memory, EmbeddedEtcd} {
		t.Run(string(store), func(t *testing.T) {
			c, client := started(t, WithStore(store))
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			r, err := c.Record(ctx, score.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Stop()
			if _, err := client.AppsV1().Deployments("default").Create(ctx, rollout("web"),
				metav1.CreateOptions{FieldManager: "me"}); err != nil {
				t.Fatal(err)
			}
			entry(ctx, t, r, "the event of the pod's start", func(e score.Entry) bool {
				return e.Object.Kind == "Pod" && e.Verb == score.Event && strings.HasPrefix(e.Why, "Started")
			})
			running := entry(ctx, t, r, "the running pod", func(e score.Entry) bool {
				return e.Object.Kind == "Pod" && strings.Contains(e.Why, "phase Running")
			})
			if w := running.Writers; len(w) != 1 || w[0].Manager != "kubelet" || w[0].Subresource != "status" ||
				!strings.Contains(running.Why, "Ready=True") {
				t.Errorf("the pod runs by %v", running)
			}
			made := entry(ctx, t, r, "the pod", of("Pod", "web-", score.Create))
			if len(made.Owners) != 1 || made.Owners[0].Kind != "ReplicaSet" ||
				made.Writers[0].Manager != "kube-controller-manager" {
				t.Errorf("the pod is made by %v", made)
			}
			bound := entry(ctx, t, r, "the binding", func(e score.Entry) bool { return strings.HasPrefix(e.Why, "bound to ") })
			if bound.Writers[0].Manager != "kube-scheduler" {
				t.Errorf("the pod is bound by %v", bound)
			}
			if e := entry(ctx, t, r, "the Deployment", of("Deployment", "web", score.Create)); e.Writers[0].Manager != "me" {
				t.Errorf("the Deployment is made by %v", e)
			}
			customResource(ctx, t, c, r)
		})
	}
}

func customResource(ctx context.Context, t *testing.T, c *Cluster, r *score.Recorder) {
	t.Helper()
	definitions := apiextensions.NewForConfigOrDie(c.RESTConfig()).ApiextensionsV1().CustomResourceDefinitions()
	if _, err := definitions.Create(ctx, gadgetDefinition(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	objects := dynamic.NewForConfigOrDie(c.RESTConfig()).Resource(
		schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "gadgets"}).Namespace("default")
	gadget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "Gadget",
		"metadata": map[string]any{"name": "one"}, "spec": map[string]any{"size": int64(1)}}}
	if err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := objects.Create(ctx, gadget, metav1.CreateOptions{FieldManager: "me"})
		return err == nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	entry(ctx, t, r, "the custom resource", of("Gadget", "one", score.Create))
	if _, err := objects.Patch(ctx, "one", "application/merge-patch+json", []byte(`{"spec":{"size":2}}`),
		metav1.PatchOptions{FieldManager: "other"}); err != nil {
		t.Fatal(err)
	}
	grown := entry(ctx, t, r, "the custom resource's change", of("Gadget", "one", score.Update))
	if !slices.Contains(grown.Fields, score.Field{Path: "spec.size", From: "1", To: "2"}) ||
		grown.Writers[0].Manager != "other" {
		t.Errorf("the change is %+v", grown)
	}
}

func gadgetDefinition() *apiextensionsv1.CustomResourceDefinition {
	names := apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Singular: "gadget", Kind: "Gadget",
		ListKind: "GadgetList"}
	schema := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "gadgets.example.org"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.org", Names: names,
			Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema}}}}}
}

// TestRecordSurvivesTheAPIServer: what comes after a killed API server is recorded, and what was there before is no
// news.
func TestRecordSurvivesTheAPIServer(t *testing.T) {
	for _, store := range []Store{Memory, EmbeddedEtcd} {
		t.Run(string(store), func(t *testing.T) {
			c, client := started(t, WithNodes(0), WithStore(store))
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			definitions := apiextensions.NewForConfigOrDie(c.RESTConfig()).ApiextensionsV1().CustomResourceDefinitions()
			if _, err := definitions.Create(ctx, gadgetDefinition(), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			r, err := c.Record(ctx, score.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Stop()
			number(ctx, t, client, "before")
			entry(ctx, t, r, "the first object", of("ConfigMap", "before", score.Create))
			for range 2 {
				if err := c.Component(APIServer).Kill(ctx); err != nil {
					t.Fatal(err)
				}
				if err := c.Component(APIServer).Start(ctx); err != nil {
					t.Fatal(err)
				}
				if err := c.WaitAPI(ctx); err != nil {
					t.Fatal(err)
				}
			}
			number(ctx, t, client, "after")
			entry(ctx, t, r, "the object after", of("ConfigMap", "after", score.Create))
			s := r.Stop()
			if len(s.Gaps) == 0 {
				t.Error("the score does not tell of the lost watches")
			}
			count := map[string]int{}
			for _, e := range s.Entries {
				if e.Verb == score.Create || e.Verb == score.Delete {
					count[string(e.Verb)+" "+e.Object.String()+" "+e.Object.UID]++
				}
			}
			for object, n := range count {
				if n > 1 {
					t.Errorf("%s is recorded %d times", object, n)
				}
			}
			if n := len(slices.DeleteFunc(s.Entries, func(e score.Entry) bool { return e.Object.Name != "before" })); n != 1 {
				t.Errorf("the first object has %d entries", n)
			}
		})
	}
}

func number(ctx context.Context, t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
