package scheduler

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	informerscorev1 "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
)

// podInformer leaves out pods that have ended.
func podInformer(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
	return informerscorev1.NewFilteredPodInformer(client, metav1.NamespaceAll, resync, cache.Indexers{},
		func(o *metav1.ListOptions) {
			o.FieldSelector = "status.phase!=Succeeded,status.phase!=Failed"
		})
}

func scheme() *runtime.Scheme { return clientscheme.Scheme }
