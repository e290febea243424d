package apiserver_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/storage/etcdtest"
)

// large is a config map that fits into the store only without its managed fields, which name all of its keys.
func large(name string) *corev1.ConfigMap {
	data := map[string]string{}
	for i := range 9999 {
		data[fmt.Sprintf("a-key-that-is-long-enough-for-its-owner-to-take-as-much-room-as-itself-%v", i)] = "A"
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
}

// TestTooLargeWithManagedFields: who owns what is given up for an object that is too large with it, but not by an
// apply, whose business it is.
func TestTooLargeWithManagedFields(t *testing.T) {
	for name, change := range map[string]func(*options.Config){
		"memory": func(*options.Config) {},
		"etcd":   onEtcdAt(etcdtest.Start(t)),
	} {
		t.Run(name, func(t *testing.T) {
			tooLargeWithManagedFields(t, start(t, change, withSigningKey(t)).client(t))
		})
	}
}

func tooLargeWithManagedFields(t *testing.T, client kubernetes.Interface) {
	maps := client.CoreV1().ConfigMaps("default")
	small := func(name string) *corev1.ConfigMap {
		t.Helper()
		cm, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return cm
	}
	for verb, write := range map[string]func() (*corev1.ConfigMap, error){
		"create": func() (*corev1.ConfigMap, error) {
			return maps.Create(t.Context(), large("create"), metav1.CreateOptions{})
		},
		"generate": func() (*corev1.ConfigMap, error) {
			cm := large("")
			cm.GenerateName = "generate-"
			return maps.Create(t.Context(), cm, metav1.CreateOptions{})
		},
		"update": func() (*corev1.ConfigMap, error) {
			cm := small("update")
			cm.Data = large("").Data
			return maps.Update(t.Context(), cm, metav1.UpdateOptions{})
		},
		"patch": func() (*corev1.ConfigMap, error) {
			small("patch")
			var patch strings.Builder
			for key := range large("").Data {
				fmt.Fprintf(&patch, `,%q:"A"`, key)
			}
			return maps.Patch(t.Context(), "patch", types.MergePatchType, []byte(`{"data":{`+patch.String()[1:]+`}}`),
				metav1.PatchOptions{})
		},
	} {
		cm, err := write()
		if err != nil {
			t.Errorf("%s: %v", verb, err)
			continue
		}
		got, err := maps.Get(t.Context(), cm.Name, metav1.GetOptions{})
		if err != nil || len(got.Data) != 9999 || len(got.ManagedFields) != 0 || got.UID == "" {
			t.Errorf("%s: %d keys, %d managers, %v", verb, len(got.Data), len(got.ManagedFields), err)
		}
		apply := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"mine":"1"}}`,
			cm.Name)
		_, err = maps.Patch(t.Context(), cm.Name, types.ApplyPatchType, []byte(apply),
			metav1.PatchOptions{FieldManager: "m"})
		if err == nil || !strings.Contains(err.Error(), "etcdserver: request is too large") {
			t.Errorf("%s, then apply: %v", verb, err)
		}
	}
}

// TestEtcdPrefix: a prefix is the same with and without its slash, as upstream's.
func TestEtcdPrefix(t *testing.T) {
	endpoint, key := etcdtest.Start(t), withSigningKey(t)
	for i, prefix := range []string{"a/registry", "/a/registry", "/a/registry/"} {
		f := start(t, onEtcdAt(endpoint), key, func(c *options.Config) { c.EtcdPrefix = prefix })
		maps := f.client(t).CoreV1().ConfigMaps("default")
		if _, err := maps.Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("cm-", i)}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		list, err := maps.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != i+1 {
			t.Errorf("with prefix %q there are %d config maps, %v", prefix, len(list.Items), err)
		}
		f.stop()
	}
}
