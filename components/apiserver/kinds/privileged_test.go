package kinds

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// TestPrivilegeInTemplates: every kind that makes pods asks the server whether they may be privileged, of new and of
// changed objects.
func TestPrivilegeInTemplates(t *testing.T) {
	const template = `{"metadata":{"labels":{"a":"b"}},"spec":{"restartPolicy":"%s","containers":[{"name":"c","image":"i","securityContext":{"privileged":%t}}]}}`
	const selected = `{"selector":{"matchLabels":{"a":"b"}},"template":` + template + `}`
	for name, form := range map[string]struct{ text, restart string }{
		"Deployment":  {`{"spec":` + selected + `}`, "Always"},
		"ReplicaSet":  {`{"spec":` + selected + `}`, "Always"},
		"DaemonSet":   {`{"spec":` + selected + `}`, "Always"},
		"StatefulSet": {`{"spec":` + selected + `}`, "Always"},
		"Job":         {`{"spec":{"manualSelector":true,` + selected[1:] + `}`, "Never"},
		"CronJob": {`{"spec":{"schedule":"0 0 * * *","jobTemplate":{"spec":{"template":` + template +
			`}}}}`, "Never"},
		"ReplicationController": {`{"spec":{"selector":{"a":"b"},"template":` + template + `}}`, "Always"},
		"PodTemplate":           {`{"template":` + template + `}`, "Always"},
	} {
		for _, allowed := range []bool{true, false} {
			kind := named(t, Table(api.Deps{AllowPrivileged: allowed}), name)
			with := func(privileged bool) api.Object {
				obj := kind.HubVersion().New()
				if err := json.Unmarshal(fmt.Appendf(nil, form.text, form.restart, privileged), obj); err != nil {
					t.Fatal(err)
				}
				kind.HubVersion().Default(obj)
				return obj
			}
			check := func(what string, errs field.ErrorList) {
				denied := 0
				for _, err := range errs {
					if strings.HasSuffix(err.Error(),
						".spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy") {
						denied++
					}
				}
				if allowed != (denied == 0) {
					t.Errorf("%s, allowed %t: %s: %v", name, allowed, what, errs)
				}
			}
			check("new", kind.Strategy.Validate(t.Context(), with(true)))
			if among := kind.Strategy.ValidateAmong; among != nil {
				check("changed", among(t.Context(), with(true), with(false), api.MetaErrors{}))
			}
			check("changed", kind.Strategy.ValidateUpdate(t.Context(), with(true), with(false)))
		}
	}
}

func named(t *testing.T, table []*api.Kind, name string) *api.Kind {
	t.Helper()
	for _, kind := range table {
		if kind.Name == name {
			return kind
		}
	}
	t.Fatal(name)
	return nil
}
