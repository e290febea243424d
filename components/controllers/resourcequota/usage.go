package resourcequota

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	podresources "k8s.io/component-helpers/resource"

	"quintet.dev/quintet/components/controllers/pods"
)

var single = *resource.NewQuantity(1, resource.DecimalSI)

// plain are the names under which some resources are also counted.
var plain = map[v1.ResourceName]schema.GroupResource{
	v1.ResourceConfigMaps:             v1.Resource("configmaps"),
	v1.ResourceSecrets:                v1.Resource("secrets"),
	v1.ResourceServices:               v1.Resource("services"),
	v1.ResourceReplicationControllers: v1.Resource("replicationcontrollers"),
	v1.ResourceQuotas:                 v1.Resource("resourcequotas"),
	v1.ResourcePersistentVolumeClaims: v1.Resource("persistentvolumeclaims"),
}

// counted returns the resource whose objects the name counts, one by one.
func counted(name v1.ResourceName) (schema.GroupResource, bool) {
	if kind, ok := strings.CutPrefix(string(name), "count/"); ok {
		return schema.ParseGroupResource(kind), true
	}
	kind, ok := plain[name]
	return kind, ok
}

// usageOfPod is what a pod is charged for. One that has ended uses nothing but its place in the store.
func usageOfPod(pod *v1.Pod) v1.ResourceList {
	if pods.Ended(pod) {
		return nil
	}
	options := podresources.PodResourcesOptions{UseStatusResources: true}
	usage := v1.ResourceList{v1.ResourcePods: single}
	for name, q := range podresources.PodRequests(pod, options) {
		if extended := strings.Contains(string(name), "/"); !extended {
			usage[name] = q
		}
		usage[v1.DefaultResourceRequestsPrefix+name] = q
	}
	for name, q := range podresources.PodLimits(pod, options) {
		if !strings.Contains(string(name), "/") {
			usage["limits."+name] = q
		}
	}
	return usage
}

func usageOfService(s *v1.Service) v1.ResourceList {
	ports, usage := int64(0), v1.ResourceList{}
	switch s.Spec.Type {
	case v1.ServiceTypeNodePort:
		ports = int64(len(s.Spec.Ports))
	case v1.ServiceTypeLoadBalancer:
		usage[v1.ResourceServicesLoadBalancers] = single
		all := s.Spec.AllocateLoadBalancerNodePorts == nil || *s.Spec.AllocateLoadBalancerNodePorts
		for i := range s.Spec.Ports {
			if all || s.Spec.Ports[i].NodePort != 0 {
				ports++
			}
		}
	}
	usage[v1.ResourceServicesNodePorts] = *resource.NewQuantity(ports, resource.DecimalSI)
	return usage
}

const ofClass = ".storageclass.storage.k8s.io/"

func usageOfClaim(c *v1.PersistentVolumeClaim) v1.ResourceList {
	usage := v1.ResourceList{}
	class := c.Annotations[v1.BetaStorageClassAnnotation]
	if class == "" && c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	names := func(name v1.ResourceName, q resource.Quantity) {
		usage[name] = q
		if class != "" {
			usage[v1.ResourceName(class+ofClass)+name] = q
		}
	}
	names(v1.ResourcePersistentVolumeClaims, single)
	request, ok := c.Spec.Resources.Requests[v1.ResourceStorage]
	if granted, larger := c.Status.AllocatedResources[v1.ResourceStorage]; ok && larger && granted.Cmp(request) > 0 {
		request = granted // a resize that was taken back is not done yet
	}
	if ok {
		names(v1.ResourceRequestsStorage, request)
	}
	return usage
}

// needs tells of which objects more than their number matters to hard.
func needs(hard v1.ResourceList) (ofPods, ofServices, ofClaims bool) {
	for name := range hard {
		_, number := counted(name)
		switch {
		case strings.HasSuffix(string(name), ofClass+"persistentvolumeclaims"), strings.HasSuffix(string(name), string(v1.ResourceRequestsStorage)):
			ofClaims = true
		case number:
		case strings.HasPrefix(string(name), string(v1.ResourceServices)+"."):
			ofServices = true
		default:
			ofPods = true
		}
	}
	return ofPods, ofServices, ofClaims
}

// observed is all that a decision depends on.
type observed struct {
	quota    *v1.ResourceQuota
	pods     []*v1.Pod
	services []*v1.Service
	claims   []*v1.PersistentVolumeClaim
	// counts are the numbers of other objects; of a resource that is not there nothing is known.
	counts map[schema.GroupResource]int64
}

// decide returns the status that the quota should have. What can't be counted is left out of what is used: the API
// server then lets nothing of it in.
func decide(o observed) v1.ResourceQuotaStatus {
	hard := o.quota.Spec.Hard.DeepCopy()
	used := v1.ResourceList{}
	for name := range hard {
		kind, number := counted(name)
		switch {
		case !number:
			used[name] = zero(hard[name])
		case len(scopesOf(o.quota)) > 0: // a scope is about pods or claims, whose number is counted below
			used[name] = *resource.NewQuantity(0, resource.DecimalSI)
		default:
			if n, known := o.counts[kind]; known {
				used[name] = *resource.NewQuantity(n, resource.DecimalSI)
			}
		}
	}
	scoped := len(scopesOf(o.quota)) > 0
	charge := func(usage v1.ResourceList, kind schema.GroupResource) {
		for name, q := range usage {
			if _, number := counted(name); number && !scoped {
				continue // by the counts already
			}
			if sum, ok := used[name]; ok {
				sum.Add(q)
				used[name] = sum
			}
		}
		if name := v1.ResourceName("count/" + kind.String()); scoped {
			if sum, ok := used[name]; ok {
				sum.Add(single)
				used[name] = sum
			}
		}
	}
	for _, pod := range o.pods {
		if podInScope(pod, o.quota) {
			charge(usageOfPod(pod), v1.Resource("pods"))
		}
	}
	for _, service := range o.services {
		if !scoped {
			charge(usageOfService(service), v1.Resource("services"))
		}
	}
	for _, claim := range o.claims {
		if claimInScope(claim, o.quota) {
			charge(usageOfClaim(claim), v1.Resource("persistentvolumeclaims"))
		}
	}
	return v1.ResourceQuotaStatus{Hard: hard, Used: quota.Mask(used, quota.ResourceNames(hard))}
}

// zero is nothing, in the format of q.
func zero(q resource.Quantity) resource.Quantity { return *resource.NewQuantity(0, q.Format) }
