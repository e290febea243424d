package handlers

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds"
)

// update replaces an object, or creates it where the kind allows that.
func (c *call) update() error {
	o, err := c.updateOptions()
	if err != nil {
		return err
	}
	if err := c.isNamed(); err != nil {
		return err
	}
	if c.sub != nil && c.sub.Scale != nil {
		return c.updateScale(o)
	}
	wanted, err := c.decodeObject(o.FieldValidation)
	if err != nil {
		return err
	}
	c.auditRequest(wanted)
	if err := c.sameName(wanted); err != nil {
		return err
	}
	c.dropDuplicateOwners(wanted, duplicateOwners)
	ch := change{
		next: func(current *cache.Entry) (kinds.Object, error) {
			return c.track(current.Object, copyOf(wanted), o.FieldManager), nil
		},
		options: o, dryRun: o.DryRun, uid: wanted.GetUID(),
	}
	if c.sub == nil && c.kind.Strategy.CreateOnUpdate {
		ch.first = func() (kinds.Object, error) { return c.track(nil, copyOf(wanted), o.FieldManager), nil }
		ch.create = createOf(o.DryRun, o.FieldManager, o.FieldValidation)
	}
	e, created, err := c.run(ch)
	if err != nil {
		return err
	}
	return c.stored(codeOf(created), e)
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
