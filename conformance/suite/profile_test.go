package suite

import (
	"slices"
	"testing"
)

func TestProfilesOfCases(t *testing.T) {
	for name, test := range map[string]struct {
		c    Case
		want []Profile
		core bool // in the first
	}{
		"by component": {Case{Component: Scheduler, Needs: []Feature{HasScheduler}},
			[]Profile{ProfileScheduler, ProfileFull}, true},
		"an extended feature": {Case{Component: Scheduler, Needs: []Feature{HasScheduler, DeviceClaims}},
			[]Profile{ProfileScheduler, ProfileFull}, false},
		"its own": {Case{Component: Controllers, Profiles: []Profile{ProfileNode, ProfileControllers},
			Needs: []Feature{RunsPods}},
			[]Profile{ProfileNode, ProfileControllers, ProfileFull}, true},
		"the whole": {Case{Component: Flow}, []Profile{ProfileFull}, true},
	} {
		if got := test.c.In(); !slices.Equal(got, test.want) {
			t.Errorf("%s: in %v, want %v", name, got, test.want)
		}
		if got := test.c.CoreIn(test.want[0]); got != test.core {
			t.Errorf("%s: core in %s: %v", name, test.want[0], got)
		}
	}
}

func TestExtendedFeatures(t *testing.T) {
	cases := []Case{
		{Component: Scheduler, Needs: []Feature{HasScheduler, DeviceClaims}},
		{Component: Scheduler, Needs: []Feature{HasControllers}},
		{Component: Kubelet, Needs: []Feature{CSIVolumes}},
	}
	want := []Feature{HasControllers, DeviceClaims}
	if got := ProfileScheduler.Extended(cases); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := ProfileFull.Extended(cases); !slices.Equal(got, []Feature{DeviceClaims, CSIVolumes}) {
		t.Errorf("of the whole: %v", got)
	}
}
