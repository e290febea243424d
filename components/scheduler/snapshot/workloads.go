package snapshot

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Owner names a controller of pods.
type Owner struct{ Kind, Namespace, Name string }

// workloads are the objects that say which pods belong together, and how many of them may be missing.
type workloads struct {
	services map[types.NamespacedName]labels.Set
	owners   map[Owner]labels.Selector
	budgets  map[types.NamespacedName]*Budget
}

// Budget is a PodDisruptionBudget.
type Budget struct {
	Obj      *policyv1.PodDisruptionBudget
	Selector labels.Selector
}

func newWorkloads() workloads {
	return workloads{
		services: map[types.NamespacedName]labels.Set{},
		owners:   map[Owner]labels.Selector{},
		budgets:  map[types.NamespacedName]*Budget{},
	}
}

// SetService keeps which pods a service selects.
func (w *workloads) SetService(name types.NamespacedName, selector labels.Set) {
	w.services[name] = selector
}

// RemoveService forgets a service.
func (w *workloads) RemoveService(name types.NamespacedName) { delete(w.services, name) }

// SetOwner keeps which pods a controller selects.
func (w *workloads) SetOwner(o Owner, selector labels.Selector) { w.owners[o] = selector }

// RemoveOwner forgets a controller.
func (w *workloads) RemoveOwner(o Owner) { delete(w.owners, o) }

// SetBudget keeps a disruption budget.
func (w *workloads) SetBudget(obj *policyv1.PodDisruptionBudget) {
	selector, err := metav1.LabelSelectorAsSelector(obj.Spec.Selector)
	if err != nil {
		selector = labels.Nothing() // the API server admits none such
	}
	w.budgets[types.NamespacedName{Namespace: obj.Namespace, Name: obj.Name}] = &Budget{obj, selector}
}

// RemoveBudget forgets a disruption budget.
func (w *workloads) RemoveBudget(name types.NamespacedName) { delete(w.budgets, name) }

// Budgets calls visit for every disruption budget.
func (w *workloads) Budgets(visit func(*Budget)) {
	for _, b := range w.budgets {
		visit(b)
	}
}

// Siblings selects the pods that belong together with p by its services and its controller; nil if there are none.
func (w *workloads) Siblings(p *Pod) labels.Selector {
	set := labels.Set{}
	for name, selector := range w.services {
		if name.Namespace != p.Obj.Namespace || len(selector) == 0 ||
			!selector.AsSelectorPreValidated().Matches(labels.Set(p.Obj.Labels)) {
			continue
		}
		for key, value := range selector {
			set[key] = value
		}
	}
	selector := labels.NewSelector()
	if len(set) > 0 {
		selector = set.AsSelectorPreValidated()
	}
	if owner := metav1.GetControllerOfNoCopy(p.Obj); owner != nil {
		if of, ok := w.owners[Owner{owner.Kind, p.Obj.Namespace, owner.Name}]; ok {
			requirements, _ := of.Requirements()
			selector = selector.Add(requirements...)
		}
	}
	if selector.Empty() {
		return nil
	}
	return selector
}
