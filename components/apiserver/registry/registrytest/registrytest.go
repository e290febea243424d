// Package registrytest is what the tests of the registry and of handlers share.
package registrytest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/storage"
)

// ConfigMaps is a cache of config maps, in front of a store, that runs until the test ends.
func ConfigMaps(t testing.TB, store storage.Store) *cache.Cache {
	t.Helper()
	return Caches(t, store, &api.Kind{
		Name: "ConfigMap", Resource: "configmaps", Prefix: "configmaps", Namespaced: true,
		Hub: corev1.SchemeGroupVersion,
		Versions: []api.Version{
			{GroupVersion: corev1.SchemeGroupVersion, New: func() api.Object { return &corev1.ConfigMap{} }}},
	})[0]
}

// Caches are caches of some kinds, in their order, in front of a store, that run until the test ends.
func Caches(t testing.TB, store storage.Store, rows ...*api.Kind) []*cache.Cache {
	t.Helper()
	set, err := cache.NewSet(cache.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	var out []*cache.Cache
	for _, kind := range rows {
		out = append(out, set.Add(kind))
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = set.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return out
}

// Kind is the row of a resource in the table of kinds, made for this call: the test may change it.
func Kind(t testing.TB, resource string) *api.Kind {
	t.Helper()
	for _, kind := range kinds.Table(api.Deps{}) {
		if kind.Resource == resource {
			return kind
		}
	}
	t.Fatalf("no kind has the resource %q", resource)
	return nil
}

// Pod is one with something in the lists that structured merge looks at.
func Pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b", Labels: map[string]string{"app": "x", "tier": "y"},
			Finalizers: []string{"example.com/f"}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "main", Image: "i", Args: []string{"serve"},
				Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "A", Value: "2"}},
				Ports: []corev1.ContainerPort{{ContainerPort: 80, Protocol: "TCP"},
					{ContainerPort: 53, Protocol: "UDP"}},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("10m")}},
			}},
			Tolerations:  []corev1.Toleration{{Key: "k", Operator: "Exists"}},
			NodeSelector: map[string]string{"n": "1"},
		},
		Status: corev1.PodStatus{Phase: "Pending"},
	}
}

// RandomFiller makes objects up that have a form in JSON.
func RandomFiller(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(c.Int63n(10_000), resource.DecimalSI)
		},
		func(i *intstr.IntOrString, c randfill.Continue) {
			if *i = intstr.FromInt32(c.Int31n(100)); c.Bool() {
				*i = intstr.FromString(c.String(3))
			}
		},
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(1e9), 0) },
		func(t *metav1.MicroTime, c randfill.Continue) {
			*t = metav1.NewMicroTime(metav1.Unix(c.Int63n(1e9), 0).Time)
		},
		func(*metav1.TypeMeta, randfill.Continue) {},
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawString(`{"f:a":{}}`) },
		func(j *apiextensionsv1.JSON, _ randfill.Continue) { j.Raw = []byte(`"a"`) },
		func(s *apiextensionsv1.JSONSchemaPropsOrArray, c randfill.Continue) {
			s.Schema = &apiextensionsv1.JSONSchemaProps{Type: c.String(5)}
		},
		func(s *apiextensionsv1.JSONSchemaPropsOrBool, _ randfill.Continue) { s.Allows = true },
		func(s *apiextensionsv1.JSONSchemaPropsOrStringArray, c randfill.Continue) {
			s.Property = []string{c.String(5)}
		},
		func(e *runtime.RawExtension, c randfill.Continue) { e.Raw = fmt.Appendf(nil, `{"a":"%d"}`, c.Intn(3)) },
		func(s *corev1.Secret, c randfill.Continue) { c.FillNoCustom(s); s.StringData = nil },
		func(s *string, c randfill.Continue) {
			*s = strings.ToValidUTF8(c.String(6), "?") + fmt.Sprint(c.Intn(50))
		},
	)
}
