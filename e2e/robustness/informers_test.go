package robustness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"quintet.dev/quintet/checks"
)

const (
	soakObjects   = 3000
	soakInformers = 4
	soakWriters   = 4
)

// TestInformers: client-go's informers have exactly what is in etcd when all is quiet again, whatever was broken
// meanwhile.
func TestInformers(t *testing.T) {
	t.Logf("seed %d", *seed)
	s := newSite(t, t.TempDir())
	r := rand.New(rand.NewPCG(*seed, 0))
	if err := fill(t.Context(), s.client(t, 0)); err != nil {
		t.Fatal(err)
	}
	following, stopFollowing := context.WithCancel(context.Background())
	var factories []informers.SharedInformerFactory
	var stores []cache.Store
	defer func() {
		stopFollowing()
		for _, f := range factories {
			f.Shutdown()
		}
	}()
	for i := range soakInformers {
		f := informers.NewSharedInformerFactory(s.client(t, i%len(s.servers)), 0)
		informer := f.Core().V1().ConfigMaps().Informer()
		f.StartWithContext(following)
		if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
			t.Fatal("an informer doesn't sync")
		}
		factories, stores = append(factories, f), append(stores, informer.GetStore())
	}
	ctx, stop := context.WithTimeout(t.Context(), *length)
	defer stop()
	var running sync.WaitGroup
	for i := range soakWriters {
		client := s.client(t, i%len(s.servers))
		random := rand.New(rand.NewPCG(*seed, uint64(i)+1))
		running.Go(func() { churn(ctx, client, random) })
	}
	torment(ctx, t, s, r)
	running.Wait()
	for i := range s.servers {
		s.await(t, i)
	}
	want, err := stored(t.Context(), s.etcd)
	if err != nil {
		t.Fatal(err)
	}
	if len(want) < soakObjects/2 {
		t.Fatalf("only %d objects are left: that proves nothing", len(want))
	}
	for i, store := range stores {
		var difference error
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			if difference = checks.Equal(inNamespace(store), want); difference == nil {
				break
			}
		}
		if difference != nil {
			t.Errorf("informer %d: %v", i, difference)
		}
	}
	t.Logf("%d objects", len(want))
}

// fill makes the first objects.
func fill(ctx context.Context, client kubernetes.Interface) error {
	errs := make(chan error, soakWriters)
	for w := range soakWriters {
		go func() {
			var err error
			for i := w; i < soakObjects && err == nil; i += soakWriters {
				_, err = client.CoreV1().ConfigMaps(namespace).Create(ctx, soaked(i, 0), metav1.CreateOptions{})
			}
			errs <- err
		}()
	}
	var first error
	for range soakWriters {
		if err := <-errs; err != nil {
			first = err
		}
	}
	return first
}

func soaked(i, value int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("soak-%d", i)},
		Data: map[string]string{dataKey: strconv.Itoa(value)}}
}

// churn changes, deletes and makes objects; what fails fails.
func churn(ctx context.Context, client kubernetes.Interface, r *rand.Rand) {
	objects := client.CoreV1().ConfigMaps(namespace)
	for ctx.Err() == nil {
		obj := soaked(r.IntN(soakObjects), r.Int())
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		var err error
		if r.IntN(10) == 0 {
			err = objects.Delete(asking, obj.Name, metav1.DeleteOptions{})
		} else if _, err = objects.Update(asking, obj, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
			_, err = objects.Create(asking, obj, metav1.CreateOptions{})
		}
		cancel()
		if err != nil {
			wait(ctx, 20*time.Millisecond)
		}
	}
}

// stored are the objects in etcd, by their names and versions.
func stored(ctx context.Context, etcd *clientv3.Client) ([]metav1.Object, error) {
	got, err := etcd.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, err
	}
	var all []metav1.Object
	for _, kv := range got.Kvs {
		all = append(all, &metav1.ObjectMeta{Namespace: namespace, Name: string(kv.Key[len(prefix):]),
			ResourceVersion: strconv.FormatInt(kv.ModRevision, 10)})
	}
	return all, nil
}

// inNamespace are the objects of an informer that are compared.
func inNamespace(store cache.Store) []metav1.Object {
	var all []metav1.Object
	for _, item := range store.List() {
		if obj := item.(*corev1.ConfigMap); obj.Namespace == namespace {
			all = append(all, obj)
		}
	}
	return all
}
