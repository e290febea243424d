package resourcequota

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"

	"quintet.dev/quintet/internal/quotas"
)

// needed are the objects of which more than their number matters to hard.
type needed struct{ pods, services, claims, devices bool }

func needs(hard v1.ResourceList) (n needed) {
	for name := range hard {
		_, number := quotas.Counted(name)
		text := string(name)
		switch {
		case strings.HasSuffix(text, quotas.OfStorageClass+"persistentvolumeclaims"),
			strings.HasSuffix(text, string(v1.ResourceRequestsStorage)):
			n.claims = true
		case strings.HasSuffix(text, quotas.OfDeviceClass):
			n.devices = true
		case number:
		case strings.HasPrefix(text, string(v1.ResourceServices)+"."):
			n.services = true
		default:
			n.pods = true
			n.devices = n.devices || strings.Contains(text, "/") // which pods and claims request
		}
	}
	return n
}

// observed is all that a decision depends on.
type observed struct {
	quota *v1.ResourceQuota
	// objects are those of which more than their number matters, by resource.
	objects map[schema.GroupResource][]runtime.Object
	// counts are the numbers of other objects; of a resource that is not there nothing is known.
	counts  map[schema.GroupResource]int64
	cluster quotas.Cluster
}

// size is how many objects a decision looks at.
func (o observed) size() int {
	n := 0
	for _, objects := range o.objects {
		n += len(objects)
	}
	return n
}

// decide returns the status that the quota should have. Resources that can't be counted are left out of used: the API
// server then lets nothing of it in.
func decide(o observed, now time.Time) v1.ResourceQuotaStatus {
	hard := o.quota.Spec.Hard.DeepCopy()
	used := v1.ResourceList{}
	scoped := len(quotas.Scopes(o.quota)) > 0
	for name := range hard {
		kind, number := quotas.Counted(name)
		switch {
		case !number:
			used[name] = zero(hard[name])
		case quotas.Ignored(kind): // nothing keeps to such a bound
		case scoped: // a scope is about pods or claims, whose number is counted below
			used[name] = *resource.NewQuantity(0, resource.DecimalSI)
		default:
			if n, known := o.counts[kind]; known {
				used[name] = *resource.NewQuantity(n, resource.DecimalSI)
			}
		}
	}
	for kind, objects := range o.objects {
		for _, obj := range objects {
			if !quotas.About(o.quota, obj) {
				continue
			}
			for name, q := range quotas.Usage(kind, obj, o.cluster, now) {
				if _, number := quotas.Counted(name); number && !scoped {
					continue // by the counts already
				}
				if sum, ok := used[name]; ok {
					sum.Add(q)
					used[name] = sum
				}
			}
		}
	}
	return v1.ResourceQuotaStatus{Hard: hard, Used: quota.Mask(used, quota.ResourceNames(hard))}
}

// zero is nothing, in the format of q.
func zero(q resource.Quantity) resource.Quantity { return *resource.NewQuantity(0, q.Format) }
