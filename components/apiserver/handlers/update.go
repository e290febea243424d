package handlers

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds"
)

// update replaces an object, or creates it where the kind allows that.
func (c *call) update() error {
	if err := c.isNamed(); err != nil {
		return err
	}
	body, err := c.readBody()
	if err != nil {
		return err
	}
	o, err := c.updateOptions()
	if err != nil {
		return err
	}
	media, err := c.bodyMedia()
	if err != nil {
		return err
	}
	if c.sub != nil && c.sub.Scale != nil {
		return c.updateScale(o, body, media)
	}
	read := func() (kinds.Object, error) { return c.objectOf(body, media, o.FieldValidation) }
	wanted, err := read()
	if err != nil {
		return err
	}
	c.steps.Reach("Conversion done")
	c.auditRequest(wanted)
	if err := c.sameName(wanted); err != nil {
		return err
	}
	c.dropDuplicateOwners(wanted, duplicateOwners)
	take := c.repeated(wanted, read)
	ch := change{
		next: func(current *cache.Entry) (kinds.Object, error) {
			obj, err := take()
			if err != nil {
				return nil, err
			}
			return c.track(current.Object, obj, o.FieldManager), nil
		},
		options: o, dryRun: o.DryRun, uid: wanted.GetUID(),
	}
	if c.strategy.CreateOnUpdate {
		ch.first = func() (kinds.Object, error) {
			obj, err := take()
			if err != nil {
				return nil, err
			}
			return c.track(nil, obj, o.FieldManager), nil
		}
		ch.create = createOf(o.DryRun, o.FieldManager, o.FieldValidation)
	}
	e, created, err := c.run(ch)
	if err != nil {
		return err
	}
	return c.stored(codeOf(created), e)
}

// repeated returns what gives out the wanted object, which may be changed then. Few updates need it again, as another writer was
// faster: they read it again.
func (c *call) repeated(wanted kinds.Object, again func() (kinds.Object, error)) func() (kinds.Object, error) {
	return func() (obj kinds.Object, err error) {
		if obj, wanted = wanted, nil; obj != nil {
			return obj, nil
		}
		if obj, err = again(); err != nil {
			return nil, err
		}
		if err := c.sameName(obj); err != nil {
			return nil, err
		}
		c.dropDuplicateOwners(obj, duplicateOwners)
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
