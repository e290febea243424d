package alike

import "k8s.io/apimachinery/pkg/api/meta"

// Transform is for an informer (cache.TransformFunc): it drops the managed fields, of which components that apply
// nothing have no use (an update without them keeps those that are stored), and shares what an object has in common
// with those before it. What an informer holds may not be changed anyway.
func (p *Pool) Transform(obj any) (any, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return obj, nil // the last state of a deleted object, of which the informer knew
	}
	accessor.SetManagedFields(nil)
	p.Share(obj)
	return obj, nil
}
