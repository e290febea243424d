package storagemigration

import (
	"testing"

	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func of(group, resource string) *migration {
	return &migration{Spec: migrationv1beta1.StorageVersionMigrationSpec{
		Resource: metav1.GroupResource{Group: group, Resource: resource}}}
}

// at has reached a version of the resource, and these conditions.
func at(version string, conditions ...migrationv1beta1.MigrationConditionType) *migration {
	m := of("apps", "deployments")
	m.Status.ResourceVersion = version
	for _, c := range conditions {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
			Type: string(c), Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.Unix(1, 0),
		})
	}
	return m
}

func TestValidate(t *testing.T) {
	for _, test := range []struct {
		m      *migration
		errors int
	}{{of("apps", "deployments"), 0}, {of("", "pods"), 0}, {of("", ""), 1}, {of("A_b", "X y"), 2}} {
		if errs := Validate(test.m); len(errs) != test.errors {
			t.Errorf("%s: %v", test.m.Spec.Resource.String(), errs)
		}
	}
	if errs := ValidateChange(of("", "pods"), of("", "nodes")); len(errs) != 1 || errs[0].Field != "spec" {
		t.Errorf("another resource: %v", errs)
	}
}

func TestValidateStatus(t *testing.T) {
	const succeeded, failed = migrationv1beta1.MigrationSucceeded, migrationv1beta1.MigrationFailed
	for _, test := range []struct {
		name     string
		new, old *migration
		fields   []string
	}{
		{"a version", at("7"), at(""), nil},
		{"an end", at("7", succeeded), at("7"), nil},
		{"no version", at("x"), at(""), []string{"status.resourceVersion"}},
		{"another version", at("8"), at("7"), []string{"status.resourceVersion"}},
		{"two ends", at("", succeeded, failed), at(""), []string{"status.conditions"}},
		{"it goes on", at("", migrationv1beta1.MigrationRunning), at("", failed), []string{"status.conditions"}},
		{"another end", at("", failed), at("", succeeded), []string{"status.conditions"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			errs := ValidateStatus(test.new, test.old)
			if len(errs) != len(test.fields) || len(errs) > 0 && errs[0].Field != test.fields[0] {
				t.Errorf("%v", errs)
			}
		})
	}
}

func TestRow(t *testing.T) {
	m := at("", migrationv1beta1.MigrationRunning)
	m.Name = "m"
	if row := Row(m); row[0] != "m" || row[1] != "deployments.apps" || row[2] != "Running" ||
		len(row) != len(Columns()) {
		t.Errorf("%v", row)
	}
	m.Status.Conditions[0].Status = metav1.ConditionFalse
	if row := Row(m); row[2] != "Unknown" {
		t.Errorf("%v", row)
	}
}
