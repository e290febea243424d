package authz

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/server/options/authorizationconfig/metrics"
)

// localTypes are the types of a configuration's authorizers that aren't remote.
func localTypes(config *apiserver.AuthorizationConfiguration) sets.Set[string] {
	types := sets.New[string]()
	for _, a := range config.Authorizers {
		types.Insert(string(a.Type))
	}
	return types.Delete(ModeWebhook)
}

// reload puts the changed content of the file into effect, unless it means the same.
func (c *Chain) reload(content []byte, identity string) error {
	config, err := decodeConfig(content)
	if err != nil {
		return err
	}
	if reflect.DeepEqual(config, c.config) {
		return nil
	}
	if err := c.replace(config); err != nil {
		return err
	}
	metrics.RecordAuthorizationConfigAutomaticReloadSuccess(identity, string(content))
	return nil
}

// replace puts another configuration into effect. It may reorder the authorizers that are not remote, but leaves none
// out, so that a mistake doesn't revoke all permissions; and those that follow the store are there from the start or
// not at all.
func (c *Chain) replace(config *apiserver.AuthorizationConfiguration) error {
	types := localTypes(config)
	if missing := c.local.Difference(types); missing.Len() > 0 {
		return fmt.Errorf("missing required types: %v", sets.List(missing))
	}
	for _, late := range []string{ModeNode, ModeABAC, ModeRBAC} {
		if types.Has(late) && !c.local.Has(late) {
			return fmt.Errorf("authorizer type %s is not allowed if it was not enabled at initial server startup", late)
		}
	}
	g, err := c.build(config)
	if err != nil {
		return err
	}
	c.config = config
	c.now.Store(g)
	return nil
}
