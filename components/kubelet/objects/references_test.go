package objects

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"
)

func TestReferences(t *testing.T) {
	const cm, secret = "configmaps/", "secrets/"
	for spec, want := range map[string][]string{
		"{containers: [{name: c}]}":                               nil,
		"{imagePullSecrets: [{name: a}, {name: ''}, {name: b}]}":  {secret + "a", secret + "b"},
		"{volumes: [{name: v, configMap: {name: a}}]}":            {cm + "a"},
		"{volumes: [{name: v, secret: {secretName: a}}]}":         {secret + "a"},
		"{volumes: [{name: v, emptyDir: {}}]}":                    nil,
		"{containers: [{envFrom: [{configMapRef: {name: a}}]}]}":  {cm + "a"},
		"{initContainers: [{envFrom: [{secretRef: {name: a}}]}]}": {secret + "a"},
		"{volumes: [{name: v, projected: {sources: [{configMap: {name: a}}, {secret: {name: b}}, " +
			"{serviceAccountToken: {path: t}}]}}]}": {cm + "a", secret + "b"},
		"{containers: [{env: [{name: A, value: x}, {name: B, valueFrom: {configMapKeyRef: {name: a, key: k}}}, " +
			"{name: C, valueFrom: {secretKeyRef: {name: b, key: k}}}, " +
			"{name: D, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]}": {cm + "a", secret + "b"},
		"{containers: [{envFrom: [{configMapRef: {name: a}}]}], initContainers: [{envFrom: " +
			"[{configMapRef: {name: a}}]}]}": {cm + "a"},
	} {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}
		if err := yaml.UnmarshalStrict([]byte(spec), &pod.Spec); err != nil {
			t.Fatalf("%s: %v", spec, err)
		}
		var got []string
		for k := range references(pod) {
			if k.namespace != "ns" {
				t.Errorf("%s: namespace %q", spec, k.namespace)
			}
			got = append(got, fmt.Sprintf("%s/%s", k.kind, k.name))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", spec, got, want)
		}
	}
}

// TestUsers: an object is held from the first pod that refers to it to the last, in all stores.
func TestUsers(t *testing.T) {
	client := fake.NewClientset()
	watches := &Watches{Client: func() kubernetes.Interface { return client }}
	first := New(client, watches, func([]types.UID) {})
	second := New(client, watches, func([]types.UID) {})
	held := func() (out []string) {
		watches.mu.Lock()
		defer watches.mu.Unlock()
		for k := range watches.watched {
			out = append(out, k.name)
		}
		slices.Sort(out)
		return out
	}
	for _, step := range []struct {
		what string
		do   func()
		want []string
	}{
		{"one refers", func() { first.Register(user("a", "cm", "s")) }, []string{"cm", "s"}},
		{"another, too", func() { first.Register(user("b", "cm", "t")) }, []string{"cm", "s", "t"}},
		{"in another store", func() { second.Register(user("c", "cm", "s")) }, []string{"cm", "s", "t"}},
		{"refers to another object now", func() { first.Register(user("b", "cm2", "t")) }, []string{"cm", "cm2", "s", "t"}},
		{"goes", func() { first.Unregister("b") }, []string{"cm", "s"}},
		{"is not known", func() { first.Unregister("x") }, []string{"cm", "s"}},
		{"a store closes", func() { first.Close() }, []string{"cm", "s"}},
		{"comes too late", func() { first.Register(user("d", "late", "late")) }, []string{"cm", "s"}},
		{"the last goes", func() { second.Close() }, nil},
	} {
		step.do()
		if got := held(); !slices.Equal(got, step.want) {
			t.Errorf("%s: %v, want %v", step.what, got, step.want)
		}
	}
	if !t.Failed() { // else some watch may go on for ever
		watches.Wait()
	}
}

// TestUnwatched: objects of no pod are read from the API server, whose errors are passed on.
func TestUnwatched(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "there"}
	client := fake.NewClientset(&v1.ConfigMap{ObjectMeta: meta}, &v1.Secret{ObjectMeta: meta})
	s := New(client, &Watches{}, nil)
	for name, found := range map[string]bool{"there": true, "missing": false} {
		configMap, err := s.ConfigMap(t.Context(), "ns", name)
		if (err == nil) != found || found && configMap.Name != name || !found && !apierrors.IsNotFound(err) {
			t.Errorf("config map %s: %v, %v", name, configMap, err)
		}
		secret, err := s.Secret(t.Context(), "ns", name)
		if (err == nil) != found || found && secret.Name != name || !found && !apierrors.IsNotFound(err) {
			t.Errorf("secret %s: %v, %v", name, secret, err)
		}
	}
}
