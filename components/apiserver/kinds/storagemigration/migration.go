package storagemigration

import (
	"context"
	"strings"

	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

func storageVersionMigrations() *api.Kind {
	type migration = migrationv1beta1.StorageVersionMigration
	return api.Define(api.Row[*migration]{
		Name: "StorageVersionMigration", Resource: "storageversionmigrations", Cluster: true,
		Hub:  migrationv1beta1.SchemeGroupVersion,
		Gate: gates.StorageVersionMigrator,
		Strategy: api.Strategy[*migration]{
			PrepareCreate: func(_ context.Context,
				m *migration) {
				m.Status = migrationv1beta1.StorageVersionMigrationStatus{}
			},
			PrepareUpdate: func(_ context.Context, new, old *migration) { new.Status = old.Status },
			Validate:      api.OfObject(Validate),
			ValidateAmong: api.WholeFirst(api.IgnoreOld(Validate), ValidateChange),
			ValidateName:  validation.NameIsDNSSubdomain,
			Reset:         []string{"status"},
		},
		Status: &api.Strategy[*migration]{
			PrepareUpdate: func(_ context.Context, new, old *migration) {
				new.Spec = old.Spec
				metav1.ResetObjectMetaForStatus(&new.ObjectMeta, &old.ObjectMeta)
			},
			Meta:           api.MetaChanges,
			ValidateUpdate: api.OfChange(ValidateStatus),
			Reset:          []string{"metadata", "spec"},
		},
		Columns: Columns(),
		Row:     Row,
	})
}

type migration = migrationv1beta1.StorageVersionMigration

// Validate checks a migration.
func Validate(m *migration) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec", "resource")
	if m.Spec.Resource.Resource == "" {
		errs = append(errs, field.Required(path.Child("resource"), "resource is required to be set"))
	} else if msgs := utilvalidation.IsDNS1035Label(m.Spec.Resource.Resource); len(msgs) > 0 {
		errs = append(errs, field.Invalid(path.Child("resource"), m.Spec.Resource.Resource, strings.Join(msgs, ",")))
	}
	if m.Spec.Resource.Group != "" {
		if msgs := utilvalidation.IsDNS1123Subdomain(m.Spec.Resource.Group); len(msgs) > 0 {
			errs = append(errs, field.Invalid(path.Child("group"), m.Spec.Resource.Group, strings.Join(msgs, ",")))
		}
	}
	return errs
}

// ValidateChange checks a change alone: what is to be migrated stays.
func ValidateChange(new, old *migration) field.ErrorList {
	var errs field.ErrorList
	if !apiequality.Semantic.DeepEqual(new.Spec, old.Spec) {
		errs = append(errs, field.Invalid(field.NewPath("spec"), checks.Unversioned(new.Spec),
			validation.FieldImmutableErrorMsg))
	}
	return errs
}

// ValidateStatus checks a change of the status: a migration ends once, and is of one version of the resource.
func ValidateStatus(new, old *migration) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("status")
	version, before := new.Status.ResourceVersion, old.Status.ResourceVersion
	if version != "" {
		if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
			errs = append(errs, field.Invalid(path.Child("resourceVersion"), version, err.Error()))
		}
	}
	conditions := path.Child("conditions")
	errs = append(errs, metavalidation.ValidateConditions(new.Status.Conditions, conditions)...)
	if before != "" && before != version {
		errs = append(errs, field.Invalid(path.Child("resourceVersion"), version, "field is immutable"))
	}
	succeeded, failed := is(new, migrationv1beta1.MigrationSucceeded), is(new, migrationv1beta1.MigrationFailed)
	for _, rule := range []struct {
		broken bool
		text   string
	}{
		{succeeded && failed, "Both success and failed conditions cannot be true at the same time"},
		{is(old, migrationv1beta1.MigrationSucceeded) && !succeeded,
			"Success condition cannot be set to false once it is true"},
		{is(old, migrationv1beta1.MigrationFailed) && !failed,
			"Failed condition cannot be set to false once it is true"},
	} {
		if rule.broken {
			errs = append(errs, field.Invalid(conditions, checks.Unversioned(new.Status.Conditions), rule.text))
		}
	}
	return errs
}

func is(m *migration, what migrationv1beta1.MigrationConditionType) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, string(what))
}

// Columns are the columns of migrations.
func Columns() show.Columns {
	return show.Columns{}.String("Name", metav1.ObjectMeta{}.SwaggerDoc()["name"]).String("Resource",
		"GroupResource to migrate").String("Status", "Status of the migration")
}

// Row are the cells of a migration.
func Row(m *migration) []any {
	status := "Unknown"
	for _, c := range m.Status.Conditions {
		switch what := migrationv1beta1.MigrationConditionType(c.Type); what {
		case migrationv1beta1.MigrationRunning, migrationv1beta1.MigrationFailed, migrationv1beta1.MigrationSucceeded:
			if c.Status == metav1.ConditionTrue {
				status = c.Type
			}
		}
	}
	return []any{m.Name, m.Spec.Resource.String(), status}
}
