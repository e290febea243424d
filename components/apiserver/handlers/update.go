package handlers

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/registry"
)

// update replaces an object, or creates it where the kind allows that.
func (c *call) update() error {
	if err := c.isNamed(); err != nil {
		return err
	}
	body, err := c.in.readBody()
	if err != nil {
		return err
	}
	o, err := c.updateOptions()
	if err != nil {
		return err
	}
	media, err := c.in.bodyMedia()
	if err != nil {
		return err
	}
	if c.IsScale() {
		return c.updateScale(o, body, media)
	}
	read := func() (api.Object, error) { return c.in.objectOf(body, media, o.FieldValidation) }
	wanted, err := read()
	if err != nil {
		return err
	}
	c.steps.Reach("Conversion done")
	c.in.auditRequest(wanted)
	if err := c.SameName(wanted); err != nil {
		return err
	}
	registry.DropDuplicateOwners(c.ctx, wanted)
	take, w, manager := c.repeated(wanted, read), c.writer(), managerName(c.r, o.FieldManager)
	ch := registry.Change{
		Next: func(current *cache.Entry) (api.Object, error) {
			obj, err := take()
			if err != nil {
				return nil, err
			}
			w.Track(current.Object, obj, manager)
			return obj, nil
		},
		Options: o, DryRun: o.DryRun, UID: wanted.GetUID(),
	}
	if c.Strategy.CreateOnUpdate {
		ch.First = func() (api.Object, error) {
			obj, err := take()
			if err != nil {
				return nil, err
			}
			w.Track(nil, obj, manager)
			return obj, nil
		}
		ch.Create, ch.MayCreate = createOf(o.DryRun, o.FieldManager, o.FieldValidation), c.mayCreate
	}
	e, created, err := c.change(ch)
	if err != nil {
		return err
	}
	return c.out.stored(codeOf(created), e)
}

// repeated returns what gives out the wanted object, which may be changed then. Few updates need it again, as another
// writer was faster: they read it again.
func (c *call) repeated(wanted api.Object, again func() (api.Object, error)) func() (api.Object, error) {
	return func() (obj api.Object, err error) {
		if obj, wanted = wanted, nil; obj != nil {
			return obj, nil
		}
		if obj, err = again(); err != nil {
			return nil, err
		}
		if err := c.SameName(obj); err != nil {
			return nil, err
		}
		registry.DropDuplicateOwners(c.ctx, obj)
		return obj, nil
	}
}

// createOf are the options of the creation that a change turned into.
func createOf(dryRun []string, manager, validation string) *metav1.CreateOptions {
	return &metav1.CreateOptions{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "CreateOptions"},
		DryRun:   dryRun, FieldManager: manager, FieldValidation: validation,
	}
}

// updateOf are the options that admission sees with a patch: what it does to the object is an update.
func updateOf(o *metav1.PatchOptions) *metav1.UpdateOptions {
	return &metav1.UpdateOptions{
		TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "UpdateOptions"},
		DryRun:   o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation,
	}
}

func codeOf(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusOK
}
