package fieldmanager

import (
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// merged is structured merge over a target's objects.
type merged struct {
	manager mergeManager
	// checked holds all objects against the schema; nil if manager does so.
	checked mergeManager
}

// mergeManager returns structured merge's manager, which it makes at the first call. It is safe for concurrent use.
type mergeManager func() (*managedfields.FieldManager, error)

func newMerged(types *Types, t *Target) merged {
	switch {
	case t.isScale():
		return merged{manager: sync.OnceValues(
			func() (*managedfields.FieldManager, error) { return scaleManager(types, t) })}
	case t.isAction():
		return merged{manager: sync.OnceValues(
			func() (*managedfields.FieldManager, error) { return actionManager(types, t) })}
	case t.Kind.Custom != nil:
		return merged{manager: sync.OnceValues(func() (*managedfields.FieldManager, error) { return customManager(t) })}
	}
	checked := sync.OnceValues(func() (*managedfields.FieldManager, error) { return kindManager(types, t) })
	if t.Kind.CreateFunc != nil {
		return merged{manager: checked}
	}
	return merged{
		manager: sync.OnceValues(func() (*managedfields.FieldManager, error) {
			return kindManager(&typer{types: describe(types, t.Kind), all: types}, t)
		}),
		checked: checked,
	}
}

// update sets the managed fields of obj.
func (m *merged) update(old, obj api.Object, manager string) {
	fields, err := m.manager()
	if err != nil {
		obj.SetManagedFields(nil)
		return
	}
	if out, ok := fields.UpdateNoErrors(old, obj, manager).(api.Object); ok {
		obj.SetManagedFields(out.GetManagedFields())
	}
}

// apply merges config into live, both of which belong to it. A fault is found where upstream finds it, by holding all
// objects against the schema.
func (m *merged) apply(live, config runtime.Object, manager string, force bool) (runtime.Object, error) {
	fields, err := m.manager()
	if err != nil {
		return nil, err
	}
	out, err := fields.Apply(live, config, manager, force)
	if err == nil || apierrors.IsConflict(err) || m.checked == nil {
		return out, err
	}
	if fields, err = m.checked(); err != nil {
		return nil, err
	}
	return fields.Apply(live, config, manager, force)
}

func kindManager(types managedfields.TypeConverter, t *Target) (*managedfields.FieldManager, error) {
	c := newConverter(t.Kind)
	return managedfields.NewDefaultFieldManager(types, c, c, c, t.Body, t.Kind.Hub, t.subresource(), t.filters())
}

// actionManager is for the bodies of an action, which have one version.
func actionManager(types *Types, t *Target) (*managedfields.FieldManager, error) {
	gv := t.Body.GroupVersion()
	c := newConverter(&api.Kind{Name: t.Body.Kind, Hub: gv, Versions: []api.Version{{
		GroupVersion: gv, New: func() api.Object {
			obj, _ := types.scheme.New(t.Body)
			return obj.(api.Object)
		},
	}}})
	return managedfields.NewDefaultFieldManager(types, c, c, c, t.Body, gv, t.subresource(), nil)
}

func scaleManager(types *Types, t *Target) (*managedfields.FieldManager, error) {
	gv := t.Body.GroupVersion()
	if t.Kind.Custom != nil { // whose fields show what they are
		c := customScaleConverter{}
		deduced := managedfields.NewDeducedTypeConverter()
		return managedfields.NewDefaultFieldManager(deduced, c, c, c, t.Body, gv, t.subresource(), nil)
	}
	c := scaleConverter{}
	return managedfields.NewDefaultFieldManager(types, c, c, c, t.Body, gv, t.subresource(), nil)
}

func customManager(t *Target) (*managedfields.FieldManager, error) {
	types, err := t.Kind.Custom.Types()
	if err != nil {
		return nil, err
	}
	c := &customConverter{t.Kind}
	return managedfields.NewDefaultCRDFieldManager(
		types, c, c, c, t.Body, t.Body.GroupVersion(), t.subresource(), t.filters())
}
