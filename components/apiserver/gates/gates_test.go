package gates

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/component-base/featuregate"

	"quintet.dev/quintet/internal/release"
)

func TestNew(t *testing.T) {
	for _, test := range []struct {
		name string
		set  map[string]bool
		want []string // what the error names; none means no error
	}{
		{"nothing", nil, nil},
		{"defaults", map[string]bool{"JobManagedBy": true, "MutatingAdmissionPolicy": true, "KMSv1": false,
			"AllAlpha": false}, nil},
		{"a switch", map[string]bool{"StorageVersionHash": false}, nil},
		{"unknown", map[string]bool{"Perpetuum": true}, []string{"unrecognized feature gate: Perpetuum"}},
		{"locked", map[string]bool{"JobManagedBy": false},
			[]string{"cannot set feature gate JobManagedBy to false, feature is locked to true"}},
		{"turned on", map[string]bool{"MutablePVNodeAffinity": true},
			[]string{"not supported", "MutablePVNodeAffinity=true"}},
		{"turned off", map[string]bool{"EnvFiles": false, "StorageVersionHash": false}, []string{": EnvFiles=false"}},
		{"a whole stage", map[string]bool{"AllAlpha": true}, []string{"AllowUnsafeMalformedObjectDeletion=true"}},
		{"a whole stage off", map[string]bool{"AllBeta": false},
			[]string{"DeploymentReplicaSetTerminatingReplicas=false"}},
		{"of other components", map[string]bool{"GracefulNodeShutdown": true, "MemoryQoS": true,
			"SchedulerPopFromBackoffQ": false, "CustomCPUCFSQuotaPeriod": false}, nil},
		{"of the way there", map[string]bool{"StorageNamespaceIndex": false, "ConcurrentWatchObjectDecode": true}, nil},
		{"without what it needs", map[string]bool{"GracefulNodeShutdown": false},
			[]string{"GracefulNodeShutdownBasedOnPodPriority is enabled, but depends on features that are disabled: " +
				"[GracefulNodeShutdown]"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := New(test.set)
			if (err == nil) != (len(test.want) == 0) {
				t.Fatalf("%v", err)
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v; want it to name %q", err, part)
				}
			}
			if err != nil && strings.Contains(err.Error(), string(StorageVersionHash)) {
				t.Errorf("%v; that one can be set", err)
			}
		})
	}
}

func TestSwitchesAreSet(t *testing.T) {
	byDefault, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Switches() {
		on := byDefault.On(name)
		wanted := map[string]bool{string(name): !on}
		switch name {
		case APIServerIdentity:
			wanted[string(UnknownVersionInteroperabilityProxy)] = false // which needs it
		case ClusterTrustBundleProjection:
			wanted[string(ClusterTrustBundle)] = true // which it needs
		}
		set, err := New(wanted)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if set.On(name) == on || set.All()[name].Default == on {
			t.Errorf("%s stayed %v", name, on)
		}
		for other, spec := range set.All() {
			if _, changed := wanted[string(other)]; !changed && spec.Default != byDefault.On(other) {
				t.Errorf("%s changed %s", name, other)
			}
		}
	}
}

func TestGatesThatNeedOthers(t *testing.T) {
	_, err := New(map[string]bool{"APIServerIdentity": false})
	if err == nil || !strings.Contains(err.Error(),
		"UnknownVersionInteroperabilityProxy is enabled, but depends on features that are disabled: [APIServerIdentity]") {
		t.Errorf("error %v", err)
	}
}

func TestTable(t *testing.T) {
	all := release.Gates()
	if len(all) < 200 {
		t.Errorf("only %d gates", len(all))
	}
	for name, spec := range all {
		if spec.PreRelease == featuregate.Alpha && spec.Default {
			t.Errorf("%s: what is alpha is off", name)
		}
	}
	once := map[featuregate.Feature]bool{}
	for _, name := range slices.Concat(Switches(), elsewhere, within) {
		if spec, ok := all[name]; !ok || spec.LockToDefault || once[name] {
			t.Errorf("%s can't be set, or is listed twice", name)
		}
		once[name] = true
	}
}
