package extender

import (
	"errors"
	"fmt"
	"strings"

	configv1 "k8s.io/kube-scheduler/config/v1"
)

var errBinders = errors.New("extenders: only one extender can implement bind")

// Check returns an error for extenders that can't work, which names the field.
func Check(all []configv1.Extender) error {
	binders := 0
	for i := range all {
		c := &all[i]
		if c.PrioritizeVerb != "" && c.Weight <= 0 {
			return fmt.Errorf("extenders[%d].weight: %d: must have a positive weight applied to it", i, c.Weight)
		}
		if c.HTTPTimeout.Duration < 0 {
			return fmt.Errorf("extenders[%d].httpTimeout: %v is negative", i, c.HTTPTimeout.Duration)
		}
		if c.BindVerb != "" {
			binders++
		}
		seen := map[string]bool{}
		for k, managed := range c.ManagedResources {
			at := fmt.Sprintf("extenders[%d].managedResources[%d].name", i, k)
			switch {
			case !strings.Contains(managed.Name, "/") || strings.Contains(managed.Name, "kubernetes.io/"):
				return fmt.Errorf("%s: %q is an invalid extended resource name", at, managed.Name)
			case seen[managed.Name]:
				return fmt.Errorf("%s: %q: duplicate extender managed resource name", at, managed.Name)
			}
			seen[managed.Name] = true
		}
	}
	if binders > 1 {
		return errBinders
	}
	return nil
}

// Ignored are the resources that nodes are not checked for, as extenders do.
func Ignored(all []configv1.Extender) []string {
	var names []string
	for i := range all {
		for _, managed := range all[i].ManagedResources {
			if managed.IgnoredByScheduler {
				names = append(names, managed.Name)
			}
		}
	}
	return names
}
