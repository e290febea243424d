// Package why finds out why an object of a cluster is not what its owner wants it to be: why a pod is pending or not
// ready, a rollout doesn't go on, an object isn't gone, a Service has no endpoints, a Job failed. Explain is a pure
// function over objects, so that recorded ones are explained as well as those of a running cluster; Of reads what it
// needs from any cluster.
package why

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// State is what an object is at the moment, in one word.
type State string

const (
	// Ready is an object that does what it is for; of kinds without a status, one that exists.
	Ready State = "Ready"
	// Complete is one that has ended well: a pod or a Job.
	Complete State = "Complete"
	// Pending is one that is not ready, and may become so by itself.
	Pending State = "Pending"
	// Failed is one that does not become ready by itself.
	Failed State = "Failed"
	// Terminating is one that is being deleted.
	Terminating State = "Terminating"
	// Missing is one that does not exist.
	Missing State = "Missing"
)

// Ref names an object.
type Ref struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String is KIND NAMESPACE/NAME.
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Cause is one reason, with those behind it.
type Cause struct {
	// Reason is a word for programs, in CamelCase. It doesn't change between releases.
	Reason string `json:"reason"`
	// Message is a sentence for people, with the component's own words where there are any.
	Message string `json:"message"`
	// Help is what would help, if that can be said.
	Help string `json:"help,omitempty"`
	// Object is which other object this is about; nil if it is about the one that was asked for.
	Object *Ref `json:"object,omitempty"`
	// Count is how many objects have this same cause; 0 is one. Object names the first of them.
	Count int `json:"count,omitempty"`
	// Causes are the reasons for this one.
	Causes []Cause `json:"causes,omitempty"`
}

// Answer says what an object is, and why.
type Answer struct {
	Object Ref     `json:"object"`
	State  State   `json:"state"`
	Causes []Cause `json:"causes,omitempty"`
}

// Well tells whether there is nothing to explain: the object is ready or has ended well.
func (a Answer) Well() bool { return a.State == Ready || a.State == Complete }

// Has tells whether a reason is among the causes, at any depth.
func (a Answer) Has(reason string) bool { return has(a.Causes, reason) }

func has(causes []Cause, reason string) bool {
	for _, c := range causes {
		if c.Reason == reason || has(c.Causes, reason) {
			return true
		}
	}
	return false
}

// String is the answer for people, in lines: the object, and its causes indented below what they cause.
func (a Answer) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is %s\n", a.Object, a.State)
	write(&b, a.Causes, "  ")
	return strings.TrimSuffix(b.String(), "\n")
}

func write(b *strings.Builder, causes []Cause, indent string) {
	for _, c := range causes {
		b.WriteString(indent)
		if c.Object != nil {
			fmt.Fprintf(b, "%s", c.Object)
			if c.Count > 1 {
				fmt.Fprintf(b, " and %d more", c.Count-1)
			}
			b.WriteString(": ")
		}
		fmt.Fprintf(b, "%s: %s\n", c.Reason, strings.ReplaceAll(strings.TrimSpace(c.Message), "\n", "\n"+indent+"  "))
		if c.Help != "" {
			fmt.Fprintf(b, "%s  -> %s\n", indent, c.Help)
		}
		write(b, c.Causes, indent+"  ")
	}
}

// Of explains an object of a running cluster, of which obj needs its type (or, if it is unstructured, its kind),
// namespace and name; obj is filled with what is read. The client may be a cached one. An object that doesn't exist is
// an answer, no error.
func Of(ctx context.Context, c client.Client, obj client.Object) (Answer, error) {
	gvk, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		return Answer{}, err
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
		if !apierrors.IsNotFound(err) {
			return Answer{}, err
		}
		return Answer{Object: Ref{Kind: gvk.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}, State: Missing,
			Causes: []Cause{{Reason: "NotFound", Message: "It does not exist."}}}, nil
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	snapshot, err := Read(ctx, c, obj)
	if err != nil {
		return Answer{}, err
	}
	return Explain(obj, snapshot), nil
}

func ref(kind string, obj metav1.Object) Ref {
	return Ref{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// about is a cause that is another object's.
func about(kind string, obj metav1.Object, c Cause) Cause {
	r := ref(kind, obj)
	c.Object = &r
	return c
}
