package quotas

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OfDeviceClass ends the names of resources that count the devices of a class.
const OfDeviceClass = ".deviceclass.resource.k8s.io/devices"

// addDevices charges the devices of a claim by their class, and by the names under which pods may ask for such devices
// as for other extended resources (KEP-5004).
func addDevices(usage corev1.ResourceList, claim *resourcev1.ResourceClaim, cluster Cluster, now time.Time) {
	extended := corev1.ResourceList{}
	for class, n := range devices(claim) {
		count := *resource.NewQuantity(n, resource.DecimalSI)
		usage[corev1.ResourceName(class+OfDeviceClass)] = count
		add(extended, corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix+class), count)
		if c := cluster.DeviceClass(class); c != nil && c.Spec.ExtendedResourceName != nil {
			add(extended, corev1.ResourceName(*c.Spec.ExtendedResourceName), count)
		}
	}
	asked := askedByPod(claim, cluster, now)
	for name, q := range extended {
		name = corev1.DefaultResourceRequestsPrefix + name
		if by, ok := asked[name]; ok {
			q.Sub(by)
		}
		if q.Sign() > 0 {
			usage[name] = q
		}
	}
}

func add(list corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) {
	sum := list[name]
	sum.Add(q)
	list[name] = sum
}

// devices are as many of each class as a claim can be given at most.
func devices(claim *resourcev1.ResourceClaim) map[string]int64 {
	out := map[string]int64{}
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		if e := request.Exactly; e != nil && len(request.FirstAvailable) == 0 {
			out[e.DeviceClassName] += number(e.AllocationMode, e.Count)
		}
		most := map[string]int64{} // one of these is chosen
		for _, s := range request.FirstAvailable {
			most[s.DeviceClassName] = max(most[s.DeviceClassName], number(s.AllocationMode, s.Count))
		}
		for class, n := range most {
			out[class] += n
		}
	}
	return out
}

func number(mode resourcev1.DeviceAllocationMode, count int64) int64 {
	switch mode {
	case resourcev1.DeviceAllocationModeExactCount:
		return count
	case resourcev1.DeviceAllocationModeAll:
		return resourcev1.AllocationResultsMaxSize
	}
	return 0
}

// askedByPod is what is charged for the pod for which the scheduler has made the claim, as the pod asks for extended
// resources. That excuses one claim only: the one that the pod's status names, or the oldest while it names none. A pod
// that has ended is charged for nothing any more, so that all of the claim is.
func askedByPod(claim *resourcev1.ResourceClaim, cluster Cluster, now time.Time) corev1.ResourceList {
	owner := podOf(claim)
	if owner == nil {
		return nil
	}
	pod := cluster.Pod(claim.Namespace, owner.Name)
	if pod == nil || pod.UID != owner.UID {
		return nil
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		if s.ResourceClaimName != claim.Name {
			return nil
		}
	} else if slices.ContainsFunc(cluster.ResourceClaims(claim.Namespace), func(other *resourcev1.ResourceClaim) bool {
		of := podOf(other)
		return of != nil && of.UID == pod.UID && older(other, claim)
	}) {
		return nil
	}
	usage := corev1.ResourceList{}
	addPod(usage, pod, now)
	return usage
}

// podOf is the pod for whose extended resources a claim was made.
func podOf(claim *resourcev1.ResourceClaim) *metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(claim)
	if claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" || owner == nil || owner.Kind != "Pod" ||
		owner.APIVersion != "v1" {
		return nil
	}
	return owner
}

func older(a, b *resourcev1.ResourceClaim) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}
