package resourcequota

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	podresources "k8s.io/component-helpers/resource"
)

// counted reports whether a request can change what is used.
func counted(a admission.Attributes) bool {
	resource := a.GetResource().GroupResource()
	if a.GetSubresource() != "" {
		return resource == corev1.Resource("pods") && a.GetSubresource() == "resize"
	}
	if a.GetOperation() == admission.Create {
		return true
	}
	return resource == corev1.Resource("services") || resource == corev1.Resource("persistentvolumeclaims")
}

// aliases are the kinds that are also counted by their plain name.
var aliases = map[schema.GroupResource]corev1.ResourceName{
	corev1.Resource("configmaps"):             corev1.ResourceConfigMaps,
	corev1.Resource("secrets"):                corev1.ResourceSecrets,
	corev1.Resource("services"):               corev1.ResourceServices,
	corev1.Resource("replicationcontrollers"): corev1.ResourceReplicationControllers,
	corev1.Resource("resourcequotas"):         corev1.ResourceQuotas,
	corev1.Resource("persistentvolumeclaims"): corev1.ResourcePersistentVolumeClaims,
}

// usageOf returns all that an object may be charged for.
func usageOf(of schema.GroupResource, obj runtime.Object) corev1.ResourceList {
	one := *resource.NewQuantity(1, resource.DecimalSI)
	usage := corev1.ResourceList{corev1.ResourceName("count/" + of.String()): one}
	if alias, ok := aliases[of]; ok {
		usage[alias] = one
	}
	switch obj := obj.(type) {
	case *corev1.Pod:
		addPod(usage, obj)
	case *corev1.Service:
		addService(usage, obj)
	case *corev1.PersistentVolumeClaim:
		addClaim(usage, obj)
	}
	return usage
}

// addPod: a pod that has ended uses nothing but its place in the store.
func addPod(usage corev1.ResourceList, pod *corev1.Pod) {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return
	}
	usage[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	options := podresources.PodResourcesOptions{UseStatusResources: true}
	addCompute(usage, podresources.PodRequests(pod, options), podresources.PodLimits(pod, options))
}

// addCompute names requests and limits as quotas do.
func addCompute(usage, requests, limits corev1.ResourceList) {
	for name, q := range requests {
		switch {
		case name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage ||
			strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			usage[name] = q
			usage[corev1.DefaultResourceRequestsPrefix+name] = q
		case strings.Contains(string(name), "/"):
			usage[corev1.DefaultResourceRequestsPrefix+name] = q
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
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
		usage[corev1.ResourceServicesLoadBalancers] = *resource.NewQuantity(1, resource.DecimalSI)
		for i := range s.Spec.Ports {
			if s.Spec.AllocateLoadBalancerNodePorts == nil || *s.Spec.AllocateLoadBalancerNodePorts || s.Spec.Ports[i].NodePort != 0 {
				ports++
			}
		}
	}
	usage[corev1.ResourceServicesNodePorts] = *resource.NewQuantity(ports, resource.DecimalSI)
}

func addClaim(usage corev1.ResourceList, c *corev1.PersistentVolumeClaim) {
	class := c.Annotations[corev1.BetaStorageClassAnnotation]
	if class == "" && c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	const suffix = ".storageclass.storage.k8s.io/"
	if class != "" {
		usage[corev1.ResourceName(class+suffix)+corev1.ResourcePersistentVolumeClaims] = *resource.NewQuantity(1, resource.DecimalSI)
	}
	request, ok := c.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return
	}
	if granted, ok := c.Status.AllocatedResources[corev1.ResourceStorage]; ok && granted.Cmp(request) > 0 {
		request = granted // a resize that was taken back is not done yet
	}
	usage[corev1.ResourceRequestsStorage] = request
	if class != "" {
		usage[corev1.ResourceName(class+suffix)+corev1.ResourceRequestsStorage] = request
	}
}

// requirable are the resources that pods must name when a quota limits them.
var requirable = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
	corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
}

func requiredOf(a admission.Attributes, q *corev1.ResourceQuota) []corev1.ResourceName {
	if a.GetResource().GroupResource() != corev1.Resource("pods") {
		return nil
	}
	var names []corev1.ResourceName
	for _, name := range requirable {
		if _, ok := q.Status.Hard[name]; ok {
			names = append(names, name)
		}
	}
	return names
}

// checkRequired: what is not named can't be counted.
func checkRequired(obj runtime.Object, required []corev1.ResourceName) error {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.Resources != nil {
		return nil // the pod names its resources as a whole
	}
	missing := map[corev1.ResourceName][]string{}
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			named := corev1.ResourceList{}
			addCompute(named, containers[i].Resources.Requests, containers[i].Resources.Limits)
			for _, name := range required {
				if _, ok := named[name]; !ok {
					missing[name] = append(missing[name], containers[i].Name)
				}
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	var parts []string
	for name, containers := range missing {
		slices.Sort(containers)
		parts = append(parts, fmt.Sprintf("%s for: %s", name, strings.Join(containers, ",")))
	}
	slices.Sort(parts)
	return fmt.Errorf("must specify %s", strings.Join(parts, "; "))
}
