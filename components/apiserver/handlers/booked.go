package handlers

import (
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"quintet.dev/quintet/components/apiserver/books"
	"quintet.dev/quintet/components/apiserver/kinds"
)

// books returns those of the writes through a door that need no structured merge; nil if there are none. They are opened
// when the first write needs them.
func (t *tracker) books(d *door) func() *books.Books {
	goType := reflect.TypeOf(d.kind.HubVersion().New())
	if d.kind.Custom != nil || d.kind.Answer != nil || d.post != nil || d.version.ToHub != nil || d.gvk != d.version.WithKind(d.kind.Name) ||
		reflect.TypeOf(d.version.New()) != goType {
		return nil
	}
	describe := newDoorTypes(d, t.describing(d)).types[goType]
	return sync.OnceValue(func() *books.Books {
		of, err := describe()
		if err != nil {
			return nil
		}
		version := d.gvk.GroupVersion().String()
		sub := ""
		if d.sub != nil {
			sub = d.sub.Name
		}
		empty := typed.AsTypedUnvalidated(value.NewValueInterface(nil), of.schema, of.ref) //nolint:staticcheck // stands for the type
		return books.New(goType.Elem(), empty, version, sub, filterOf(d)[fieldpath.APIVersion(version)])
	})
}

// booked are the managed fields of obj, if that can be told without structured merge.
func (c *call) booked(old, obj kinds.Object, manager string) (_ []metav1.ManagedFieldsEntry, ok bool) {
	if c.books == nil {
		return nil, false
	}
	b := c.books()
	if b == nil {
		return nil, false
	}
	if old == nil {
		old = c.kind.HubVersion().New()
	} else {
		old, obj = apart(old, obj)
	}
	return b.Update(old, obj, c.managerName(manager), time.Now())
}
