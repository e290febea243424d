// Package quotas computes the usage of objects for resource quotas, and the objects that a quota covers
// (https://kubernetes.io/docs/concepts/policy/resource-quotas/). The API server charges objects by it when it lets them
// in, and the controller counts them by it.
package quotas

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	podresources "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
)

// Cluster is what else there is that matters to what an object uses. What isn't there is nil.
type Cluster interface {
	DeviceClass(name string) *resourcev1.DeviceClass
	Pod(namespace, name string) *corev1.Pod
	ResourceClaims(namespace string) []*resourcev1.ResourceClaim
}

var one = *resource.NewQuantity(1, resource.DecimalSI)

// plain are the names under which some resources are also counted.
var plain = map[corev1.ResourceName]schema.GroupResource{
	corev1.ResourceConfigMaps:             corev1.Resource("configmaps"),
	corev1.ResourceSecrets:                corev1.Resource("secrets"),
	corev1.ResourceServices:               corev1.Resource("services"),
	corev1.ResourceReplicationControllers: corev1.Resource("replicationcontrollers"),
	corev1.ResourceQuotas:                 corev1.Resource("resourcequotas"),
	corev1.ResourcePersistentVolumeClaims: corev1.Resource("persistentvolumeclaims"),
}

// Counted returns the resource whose objects the name counts, one by one.
func Counted(name corev1.ResourceName) (schema.GroupResource, bool) {
	if kind, ok := strings.CutPrefix(string(name), "count/"); ok {
		return schema.ParseGroupResource(kind), true
	}
	kind, ok := plain[name]
	return kind, ok
}

// Usage is all that an object of a resource may be charged for.
func Usage(of schema.GroupResource, obj runtime.Object, cluster Cluster, now time.Time) corev1.ResourceList {
	usage := corev1.ResourceList{corev1.ResourceName("count/" + of.String()): one}
	for name, kind := range plain {
		if kind == of {
			usage[name] = one
		}
	}
	switch obj := obj.(type) {
	case *corev1.Pod:
		addPod(usage, obj, now)
	case *corev1.Service:
		addService(usage, obj)
	case *corev1.PersistentVolumeClaim:
		addVolumes(usage, obj)
	case *resourcev1.ResourceClaim:
		addDevices(usage, obj, cluster, now)
	}
	return usage
}

// addPod: a pod that has ended uses nothing but its place in the store, nor does one that should have been gone by now,
// as that of a node that was lost.
func addPod(usage corev1.ResourceList, pod *corev1.Pod, now time.Time) {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return
	}
	if grace := pod.DeletionGracePeriodSeconds; pod.DeletionTimestamp != nil && grace != nil &&
		now.After(pod.DeletionTimestamp.Add(time.Duration(*grace)*time.Second)) {
		return
	}
	usage[corev1.ResourcePods] = one
	options := podresources.PodResourcesOptions{UseStatusResources: true}
	AddCompute(usage, podresources.PodRequests(pod, options), podresources.PodLimits(pod, options))
}

// AddCompute names requests and limits as quotas do.
func AddCompute(usage, requests, limits corev1.ResourceList) {
	for name, q := range requests {
		switch {
		case name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage ||
			strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			usage[name] = q
			usage[corev1.DefaultResourceRequestsPrefix+name] = q
		case Extended(name):
			usage[corev1.DefaultResourceRequestsPrefix+name] = q
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory,
		corev1.ResourceEphemeralStorage} {
		if q, ok := limits[name]; ok {
			usage["limits."+name] = q
		}
	}
}

func addService(usage corev1.ResourceList, s *corev1.Service) {
	ports := int64(0)
	switch s.Spec.Type {
	case corev1.ServiceTypeNodePort:
		ports = int64(len(s.Spec.Ports))
	case corev1.ServiceTypeLoadBalancer:
		usage[corev1.ResourceServicesLoadBalancers] = one
		for i := range s.Spec.Ports {
			if s.Spec.AllocateLoadBalancerNodePorts == nil || *s.Spec.AllocateLoadBalancerNodePorts ||
				s.Spec.Ports[i].NodePort != 0 {
				ports++
			}
		}
	}
	usage[corev1.ResourceServicesNodePorts] = *resource.NewQuantity(ports, resource.DecimalSI)
}

// OfStorageClass separates the storage class from the rest of a resource name.
const OfStorageClass = ".storageclass.storage.k8s.io/"

// StorageClass is the class of a claim's volume, "" for none. The annotation of old counts before the field, even if it
// is empty.
func StorageClass(c *corev1.PersistentVolumeClaim) string {
	if class, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	return ptr.Deref(c.Spec.StorageClassName, "")
}

func addVolumes(usage corev1.ResourceList, c *corev1.PersistentVolumeClaim) {
	class := StorageClass(c)
	if class != "" {
		usage[corev1.ResourceName(class+OfStorageClass)+corev1.ResourcePersistentVolumeClaims] = one
	}
	request, ok := c.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return
	}
	request = whole(request)
	if granted, ok := c.Status.AllocatedResources[corev1.ResourceStorage]; ok && granted.Cmp(request) > 0 {
		request = whole(granted) // a resize that was taken back is not done yet
	}
	usage[corev1.ResourceRequestsStorage] = request
	if class != "" {
		usage[corev1.ResourceName(class+OfStorageClass)+corev1.ResourceRequestsStorage] = request
	}
}

// whole rounds up to bytes, which is all that the status of a quota may tell. What is whole keeps its format.
func whole(q resource.Quantity) resource.Quantity {
	if rounded := q.DeepCopy(); !rounded.RoundUp(0) {
		return rounded
	}
	return q
}
