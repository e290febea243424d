package services

import (
	"fmt"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"quintet.dev/quintet/components/controllers/pods"
)

// BenchmarkPods shows whether the time to find the 100 pods of a Service is the same in a namespace of a hundred times
// as many pods.
func BenchmarkPods(b *testing.B) {
	for _, n := range []int{1_500, 150_000} {
		factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
		index, err := pods.NewIndex(factory)
		if err != nil {
			b.Fatal(err)
		}
		for i := range n {
			p := pod(fmt.Sprint("p", i), fmt.Sprint(i/100))
			if err := factory.Core().V1().Pods().Informer().GetIndexer().Add(p); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if found := len(Pods(index, service("7"))); found != 100 {
					b.Fatalf("%d pods are found", found)
				}
			}
		})
	}
}
