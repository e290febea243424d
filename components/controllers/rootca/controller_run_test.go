package rootca

import (
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func namespace(name string, phase v1.NamespacePhase) *v1.Namespace {
	return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NamespaceStatus{Phase: phase}}
}

func configMap(namespace string, data map[string]string, annotations map[string]string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: configMapName,
		Annotations: annotations},
		Data: data}
}

func TestPlanRepairs(t *testing.T) {
	right, described := map[string]string{"ca.crt": "ca"}, map[string]string{descriptionKey: "mine"}
	for name, c := range map[string]struct {
		current *v1.ConfigMap
		writes  bool
	}{
		"right":                   {configMap("ns", right, described), false},
		"no annotations":          {configMap("ns", right, nil), true},
		"an empty description":    {configMap("ns", right, map[string]string{descriptionKey: ""}), true},
		"other annotations stay":  {configMap("ns", right, map[string]string{"x": "y"}), true},
		"another authority":       {configMap("ns", map[string]string{"ca.crt": "old"}, described), true},
		"no data":                 {configMap("ns", nil, described), true},
		"something beside the CA": {configMap("ns", map[string]string{"ca.crt": "ca", "x": "y"}, described), true},
	} {
		before := c.current.DeepCopy()
		got := plan("ns", "ca", c.current)
		if (got != nil) != c.writes {
			t.Errorf("%s: %+v", name, got)
		}
		if got == nil {
			continue
		}
		if fmt.Sprint(got.Data) != fmt.Sprint(right) || got.Annotations[descriptionKey] != description ||
			got.Annotations["x"] != before.Annotations["x"] {
			t.Errorf("%s: %+v", name, got)
		}
		if fmt.Sprint(c.current) != fmt.Sprint(before) {
			t.Errorf("%s: the informer's object was changed", name)
		}
		if again := plan("ns", "ca", got); again != nil {
			t.Errorf("%s: writes again", name)
		}
	}
}

// TestPublishes writes the config map into every namespace that stays, puts it back when it is deleted or changed, and
// into namespaces made later.
func TestPublishes(t *testing.T) {
	client := runnertest.NewClient(namespace("a", v1.NamespaceActive), namespace("going", v1.NamespaceTerminating),
		namespace("wrong", v1.NamespaceActive), configMap("wrong", map[string]string{"ca.crt": "old"}, nil))
	failed := false
	client.PrependReactor("create", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetNamespace() == "a" && !failed {
			failed = true
			return true, nil, errors.New("not now")
		}
		return false, nil, nil
	})
	runnertest.Start(t, client, clock.RealClock{},
		func(env runner.Env) (runner.Controller, error) { return New(env, []byte("ca")) })
	published := func(ns string) {
		t.Helper()
		runnertest.Eventually(t, func() (bool, string) {
			got, err := client.CoreV1().ConfigMaps(ns).Get(t.Context(), configMapName, metav1.GetOptions{})
			return err == nil && got.Data["ca.crt"] == "ca" && len(got.Data) == 1, fmt.Sprint(got, err)
		})
	}
	published("a")
	published("wrong")
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), namespace("late", v1.NamespaceActive),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	published("late")
	if err := client.CoreV1().ConfigMaps("late").Delete(t.Context(), configMapName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	published("late")
	if _, err := client.CoreV1().ConfigMaps("a").Update(t.Context(), configMap("a", nil, nil),
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	published("a")
	if _, err := client.CoreV1().ConfigMaps("going").Get(t.Context(), configMapName,
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a namespace that is going: %v", err)
	}
}
