package gates

import (
	"strings"
	"testing"

	"k8s.io/component-base/featuregate"
)

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		name string
		set  map[string]bool
		want []string // what the error names; none means no error
	}{
		{"nothing", nil, nil},
		{"defaults", map[string]bool{"JobManagedBy": true, "MutatingAdmissionPolicy": true, "KMSv1": false, "AllAlpha": false}, nil},
		{"unknown", map[string]bool{"Perpetuum": true}, []string{"unrecognized feature gate: Perpetuum"}},
		{"locked", map[string]bool{"JobManagedBy": false}, []string{"cannot set feature gate JobManagedBy to false, feature is locked to true"}},
		{"turned on", map[string]bool{"KMSv1": true}, []string{"not supported", "KMSv1=true"}},
		{"turned off", map[string]bool{"MutatingAdmissionPolicy": false}, []string{"MutatingAdmissionPolicy=false"}},
		{"a whole stage", map[string]bool{"AllAlpha": true}, []string{"APIServingWithRoutine=true"}},
		{"a whole stage off", map[string]bool{"AllBeta": false}, []string{"APIResponseCompression=false"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := Check(test.set)
			if (err == nil) != (len(test.want) == 0) {
				t.Fatalf("%v", err)
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v; want it to name %q", err, part)
				}
			}
		})
	}
}

func TestTable(t *testing.T) {
	all := All()
	if len(all) < 200 {
		t.Errorf("only %d gates", len(all))
	}
	for name, spec := range all {
		if spec.PreRelease == featuregate.Alpha && spec.Default {
			t.Errorf("%s: what is alpha is off", name)
		}
	}
}
