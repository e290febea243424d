package handlers

import (
	"net/http"
)

// create stores a new object, or, for virtual kinds, answers it.
func (c *call) create() error {
	if custom := c.Kind.Custom; custom != nil && custom.Settle != nil {
		custom.Settle(c.ctx)
	}
	body, media, err := c.in.typedBody()
	if err != nil {
		return err
	}
	o, err := c.createOptions()
	if err != nil {
		return err
	}
	obj, err := c.in.objectOf(body, media, o.FieldValidation)
	if err != nil {
		return err
	}
	c.steps.Reach("Conversion done")
	c.in.auditRequest(obj)
	if err := c.InNamespace(obj); err != nil {
		return err
	}
	if c.Kind.CreateFunc != nil {
		return c.answered(obj, o)
	}
	c.steps.Reach("About to store object in database")
	e, err := c.writer().Create(c.ctx, obj, o, managerName(c.r, o.FieldManager))
	c.steps.Reach(written(err))
	if err != nil {
		return err
	}
	return c.out.stored(http.StatusCreated, e)
}

// written is the step that a write has reached.
func written(err error) string {
	if err != nil {
		return "Write to database call failed"
	}
	return "Write to database call succeeded"
}
