package resource

import (
	"context"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/show"
	"quintet.dev/quintet/components/apiserver/kinds/twin"
)

func deviceTaintRules(deps api.Deps) *api.Kind {
	type rule = resourcev1alpha3.DeviceTaintRule
	stamp := func(r *rule) { StampRule(r, deps.Now()) }
	return api.Define(api.Row[*rule]{
		Name: "DeviceTaintRule", Resource: "devicetaintrules", Cluster: true,
		Hub:     resourcev1alpha3.SchemeGroupVersion,
		Default: stamp,
		Others: []api.Version{api.TwinVersion[*resourcev1beta2.DeviceTaintRule](
			resourcev1beta2.SchemeGroupVersion, stamp)},
		OthersFirst: true,
		Strategy: api.Strategy[*rule]{
			ReturnDeleted: true,
			PrepareCreate: func(_ context.Context, r *rule) {
				r.Status = resourcev1alpha3.DeviceTaintRuleStatus{}
				r.Generation = 1
			},
			PrepareUpdate: func(_ context.Context, new, old *rule) {
				new.Status = old.Status
				StampEffect(new, old, deps.Now())
				if !apiequality.Semantic.DeepEqual(new.Spec, old.Spec) {
					new.Generation = old.Generation + 1
				}
			},
			Validate:            api.OfObject(ValidateRule),
			ValidateUpdate:      api.OfChange(ValidateRuleUpdate),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &api.Strategy[*rule]{
			PrepareUpdate: func(_ context.Context, new, old *rule) {
				new.Spec = old.Spec
				metav1.ResetObjectMetaForStatus(&new.ObjectMeta, &old.ObjectMeta)
			},
			ValidateUpdate: api.OfChange(ValidateRuleStatus),
			Reset:          []string{"metadata", "spec"},
		},
		Columns: RuleColumns(),
		Row:     RuleRow,
	})
}

type taintRule = resourcev1alpha3.DeviceTaintRule

// StampRule sets the time at which a rule's taint was added, where the writer doesn't.
func StampRule(r *taintRule, now time.Time) {
	if t := &r.Spec.Taint; t.TimeAdded == nil {
		t.TimeAdded = &metav1.Time{Time: now.Truncate(time.Second)}
	}
}

// StampEffect notes when the effect of a rule's taint changed, unless the change tells another time.
func StampEffect(new, old *taintRule, now time.Time) {
	is, was := &new.Spec.Taint, &old.Spec.Taint
	if is.Effect != was.Effect && is.TimeAdded.Equal(was.TimeAdded) {
		is.TimeAdded = &metav1.Time{Time: now.Truncate(time.Second)}
	}
}

// ValidateRule checks a rule that taints devices.
func ValidateRule(r *taintRule) field.ErrorList { return validateRule(r, nil) }

// ValidateRuleUpdate checks a change: an effect that isn't known may stay.
func ValidateRuleUpdate(new, old *taintRule) field.ErrorList { return validateRule(new, old) }

func validateRule(r, old *taintRule) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	if s, at := r.Spec.DeviceSelector, path.Child("deviceSelector"); s != nil {
		if s.Driver != nil {
			errs = append(errs, driverName(*s.Driver, at.Child("driver"))...)
		}
		if s.Pool != nil {
			errs = append(errs, poolName(*s.Pool, at.Child("pool"))...)
		}
		if s.Device != nil {
			errs = append(errs, label(*s.Device, at.Child("device"))...)
		}
	}
	taint, at := twin.Of[resourcev1.DeviceTaint](&r.Spec.Taint), path.Child("taint")
	errs = append(errs, keyAndValue(taint, at)...)
	if old == nil || old.Spec.Taint.Effect != r.Spec.Taint.Effect {
		errs = append(errs, taintEffect(taint.Effect, at.Child("effect"))...)
	}
	return errs
}

// ValidateRuleStatus checks a change of the status.
func ValidateRuleStatus(new, _ *taintRule) field.ErrorList {
	at := field.NewPath("status", "conditions")
	errs := metavalidation.ValidateConditions(new.Status.Conditions, at)
	if n := len(new.Status.Conditions); n > resourcev1alpha3.DeviceTaintRuleStatusMaxConditions {
		errs = append(errs, field.TooMany(at, n, resourcev1alpha3.DeviceTaintRuleStatusMaxConditions))
	}
	return errs
}

// RuleColumns are the columns of rules: their taints.
func RuleColumns() show.Columns {
	doc := resourcev1.DeviceTaint{}.SwaggerDoc()
	return show.Name().String("Key", doc["key"]).String("Value", doc["value"]).String("Effect",
		doc["effect"]).String("TimeAdded", doc["timeAdded"]).Age()
}

// RuleRow are the cells of a rule.
func RuleRow(r *taintRule) []any {
	t := &r.Spec.Taint
	var added any = ""
	if t.TimeAdded != nil {
		added = show.Age(*t.TimeAdded)
	}
	return []any{r.Name, t.Key, t.Value, string(t.Effect), added, show.Age(r.CreationTimestamp)}
}
