package handlers

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/handlers/answer"
	"quintet.dev/quintet/components/apiserver/registry"
)

// change writes to an object that may exist, and tells whether it created it.
func (c *call) change(ch registry.Change) (*cache.Entry, bool, error) {
	c.steps.Reach("About to store object in database")
	e, created, err := c.writer().Update(c.ctx, ch)
	c.steps.Reach(written(err))
	return e, created, err
}

// mayCreate asks whether the user may create, if that is what a change of something that doesn't exist turned into.
func (c *call) mayCreate(ctx context.Context) error {
	if c.api.config.Authorizer == nil {
		return nil
	}
	a := c.asVerb("create")
	decision, reason, err := c.api.config.Authorizer.Authorize(ctx, a)
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case err != nil:
		return apierrors.NewInternalError(err)
	}
	return answer.Forbidden(a, reason)
}

// asVerb is the request as authorizers see it, with another verb.
func (c *call) asVerb(verb string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: c.User, Verb: verb, ResourceRequest: true, Path: c.info.Path,
		Namespace: c.info.Namespace, APIGroup: c.info.APIGroup, APIVersion: c.info.APIVersion,
		Resource: c.info.Resource, Subresource: c.info.Subresource, Name: c.info.Name,
	}
}
