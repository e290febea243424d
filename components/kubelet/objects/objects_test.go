package objects

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
)

func user(uid, configMap, secret string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID(uid)},
		Spec: v1.PodSpec{
			Volumes: []v1.Volume{
				{
					Name: "v",
					VolumeSource: v1.VolumeSource{
						ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: configMap}},
					},
				},
			},
			Containers: []v1.Container{
				{
					EnvFrom: []v1.EnvFromSource{
						{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: secret}}},
					},
				},
			},
		},
	}
}

func TestWatchedObjectsTellTheirPods(t *testing.T) {
	client := fake.NewClientset(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cm"},
		Data: map[string]string{"k": "1"}})
	changed := make(chan []types.UID, 100)
	ctx := t.Context()
	watches := &Watches{Client: func() kubernetes.Interface { return client }}
	s := New(client, watches, func(uids []types.UID) { changed <- uids })
	s.Register(user("a", "cm", "s"))
	s.Register(user("b", "cm", "s"))
	await := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
			object, err := s.ConfigMap(ctx, "ns", "cm")
			if err == nil && object.Data["k"] == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("got %v, %v", object, err)
			}
		}
	}
	await("1")
	for _, known := s.synced("cm"); !known; _, known = s.synced("cm") {
		time.Sleep(time.Millisecond)
	}
	for len(changed) > 0 {
		<-changed
	}
	if _, err := client.CoreV1().ConfigMaps("ns").Update(ctx,
		&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cm"},
			Data: map[string]string{"k": "2"}}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	uids := <-changed
	slices.Sort(uids)
	if !slices.Equal(uids, []types.UID{"a", "b"}) {
		t.Errorf("told %v", uids)
	}
	await("2")
	if _, err := s.Secret(ctx, "ns", "s"); !apierrors.IsNotFound(err) {
		t.Errorf("a secret that is not there: %v", err)
	}
	s.Unregister("a")
	s.Unregister("b")
	if len(s.items) != 0 || len(s.byPod) != 0 {
		t.Errorf("still watched: %v", s.items)
	}
	s.Close()
	watches.Wait()
}

// synced tells whether the config map called name is watched and in step.
func (s *Store) synced(name string) (exists, known bool) {
	_, exists, known = s.cached(key{ConfigMap, "ns", name})
	return exists, known
}
