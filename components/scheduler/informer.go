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

// notEnded leaves out pods that have ended.
func notEnded(o *metav1.ListOptions) {
	o.FieldSelector = "status.phase!=Succeeded,status.phase!=Failed"
}

// podInformer is the informer of those pods for a fake clientset.
func podInformer(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
	return informerscorev1.NewFilteredPodInformer(client, metav1.NamespaceAll, resync, cache.Indexers{}, notEnded)
}

func scheme() *runtime.Scheme { return clientscheme.Scheme }
