package source

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// kubelet notes what its source hands in.
type kubelet struct {
	mu     sync.Mutex
	pods   map[string]bool
	synced int
	stop   context.CancelFunc
	done   chan struct{}
}

func follow(t *testing.T, s Source[*v1.Pod], node string) *kubelet {
	ctx, stop := context.WithCancel(t.Context())
	k := &kubelet{pods: map[string]bool{}, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(k.done)
		s(ctx, Handler[*v1.Pod]{
			Set: func(pod *v1.Pod) {
				if pod.Spec.NodeName != node || ctx.Err() != nil || len(pod.ManagedFields) > 0 {
					t.Errorf("%s got pod %s of %q, %v", node, pod.Name, pod.Spec.NodeName, ctx.Err())
				}
				k.mu.Lock()
				defer k.mu.Unlock()
				k.pods[pod.Name] = true
			},
			Gone: func(pod *v1.Pod) {
				k.mu.Lock()
				defer k.mu.Unlock()
				delete(k.pods, pod.Name)
			},
			Synced: func() {
				k.mu.Lock()
				defer k.mu.Unlock()
				k.synced++
			},
		})
	}()
	return k
}

func (k *kubelet) has() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var names []string
	for name := range k.pods {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// settle returns when all is delivered: an informer asks every 100 ms of the bubble's time whether it is in step.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

func pod(name, node string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "test"}}}, Spec: v1.PodSpec{NodeName: node}}
}

func sharedPods(client kubernetes.Interface) *Shared[*v1.Pod] {
	return &Shared[*v1.Pod]{
		Watch: func() cache.ListerWatcher {
			return Selected(client.CoreV1().Pods(""), fields.Everything(), client)
		},
		Example: &v1.Pod{}, Node: func(p *v1.Pod) string { return p.Spec.NodeName },
	}
}

func watches(client *fake.Clientset) int {
	n := 0
	for _, action := range client.Actions() {
		if _, ok := action.(clienttesting.WatchAction); ok {
			n++
		}
	}
	return n
}

// Nodes that come and go at any time have exactly their pods, by one watch.
func TestEveryNodeHasItsPods(t *testing.T) {
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			client := fake.NewClientset()
			pods := client.CoreV1().Pods("ns")
			shared := sharedPods(client)
			keep := follow(t, shared.Of("none"), "none") // so that the watch is one
			settle()
			kubelets, want := map[string]*kubelet{}, map[string]map[string]bool{}
			for step := range 60 {
				node := fmt.Sprint("n", random.IntN(4))
				switch k := kubelets[node]; {
				case random.IntN(5) == 0 && k == nil:
					kubelets[node] = follow(t, shared.Of(node), node)
				case random.IntN(8) == 0 && k != nil:
					k.stop()
					<-k.done
					delete(kubelets, node)
				case random.IntN(3) == 0 && len(want[node]) > 0:
					for name := range want[node] {
						if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
							t.Fatal(err)
						}
						delete(want[node], name)
						break
					}
				default:
					name := fmt.Sprint("p", step)
					if _, err := pods.Create(t.Context(), pod(name, node), metav1.CreateOptions{}); err != nil {
						t.Fatal(err)
					}
					if want[node] == nil {
						want[node] = map[string]bool{}
					}
					want[node][name] = true
				}
				if random.IntN(4) > 0 {
					continue // several changes at once
				}
				settle()
				for node, k := range kubelets {
					if got := k.has(); len(got) != len(want[node]) ||
						slices.ContainsFunc(got, func(name string) bool { return !want[node][name] }) || k.synced != 1 {
						t.Fatalf("seed %d, step %d: %s has %v, synced %d times; want %v", seed, step, node, got, k.synced,
							want[node])
					}
				}
			}
			for _, k := range kubelets {
				k.stop()
				<-k.done
			}
			if n := watches(client); n != 1 {
				t.Errorf("%d watches", n)
			}
			keep.stop()
			<-keep.done
		})
	}
}

// The watch ends with the last source, and the next one begins another.
func TestWatchEndsWithItsSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(pod("a", "n0"))
		shared := sharedPods(client)
		for round := 1; round <= 2; round++ {
			k := follow(t, shared.Of("n0"), "n0")
			settle()
			if got := k.has(); !slices.Equal(got, []string{"a"}) || watches(client) != round {
				t.Errorf("round %d: pods %v, %d watches", round, got, watches(client))
			}
			k.stop()
			<-k.done
		}
	})
}
