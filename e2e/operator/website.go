// Package operator is an operator as its authors write them with controller-runtime: a custom resource, a reconciler
// that applies what the resource asks for, a finalizer, webhooks, an index. It is tested with envtest, and deployed to
// a cluster.
package operator

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of Website.
var GroupVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

// Website is a page that a Deployment serves under a host name, of which there is one in the cluster.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WebsiteSpec   `json:"spec"`
	Status WebsiteStatus `json:"status,omitempty"`
}

// WebsiteSpec is the desired state of a Website.
type WebsiteSpec struct {
	Host     string `json:"host"`               // never changes
	Page     string `json:"page"`               // HTML
	Replicas *int32 `json:"replicas,omitempty"` // two if nil
}

// WebsiteStatus is what the operator has seen.
type WebsiteStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WebsiteList is a list of them.
type WebsiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Website `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (w *Website) DeepCopyObject() runtime.Object { return w.deepCopy() }

func (w *Website) deepCopy() *Website {
	out := *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if w.Spec.Replicas != nil {
		replicas := *w.Spec.Replicas
		out.Spec.Replicas = &replicas
	}
	out.Status.Conditions = append([]metav1.Condition(nil), w.Status.Conditions...)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *WebsiteList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Website, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].deepCopy()
	}
	return &out
}

// AddToScheme makes the types known.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Website{}, &WebsiteList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
