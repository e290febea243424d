package kinds

import (
	"context"

	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/kinds/resource"
)

func deviceTaintRules(deps Deps) *Kind {
	type rule = resourcev1alpha3.DeviceTaintRule
	stamp := func(r *rule) { resource.StampRule(r, deps.now()) }
	return define(row[*rule]{
		Name: "DeviceTaintRule", Resource: "devicetaintrules", Cluster: true,
		Hub:         resourcev1alpha3.SchemeGroupVersion,
		Default:     stamp,
		Others:      []Version{twinned[*resourcev1beta2.DeviceTaintRule](resourcev1beta2.SchemeGroupVersion, stamp)},
		OthersFirst: true,
		Strategy: strategy[*rule]{
			ReturnDeleted: true,
			PrepareCreate: func(_ context.Context, r *rule) {
				r.Status = resourcev1alpha3.DeviceTaintRuleStatus{}
				r.Generation = 1
			},
			PrepareUpdate: func(_ context.Context, new, old *rule) {
				new.Status = old.Status
				resource.StampEffect(new, old, deps.now())
				if !apiequality.Semantic.DeepEqual(new.Spec, old.Spec) {
					new.Generation = old.Generation + 1
				}
			},
			Validate:            resource.ValidateRule,
			ValidateUpdate:      resource.ValidateRuleUpdate,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &strategy[*rule]{
			PrepareUpdate: func(_ context.Context, new, old *rule) {
				new.Spec = old.Spec
				metav1.ResetObjectMetaForStatus(&new.ObjectMeta, &old.ObjectMeta)
			},
			ValidateUpdate: resource.ValidateRuleStatus,
			Reset:          []string{"metadata", "spec"},
		},
		Columns: resource.RuleColumns(),
		Row:     resource.RuleRow,
	})
}
