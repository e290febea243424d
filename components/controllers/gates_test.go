package controllers

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/component-base/featuregate"

	"quintet.dev/quintet/internal/release"
)

// TestGates: any number of gates of the release can be set, and those that can't be honoured are named.
func TestGates(t *testing.T) {
	for name, c := range map[string]struct {
		set map[string]bool
		err string
		on  []featuregate.Feature
		off []featuregate.Feature
	}{
		"none": {on: []featuregate.Feature{deviceTaints},
			off: []featuregate.Feature{scaleToZero, maxUnavailable}},
		"several": {set: map[string]bool{maxUnavailable: true, scaleToZero: true, deviceTaints: false},
			on:  []featuregate.Feature{maxUnavailable, scaleToZero},
			off: []featuregate.Feature{deviceTaints}},
		"of others":      {set: map[string]bool{"NodeSwap": true, "GangScheduling": true, "KubeletPSI": true}},
		"as it is":       {set: map[string]bool{"PodDeletionCost": true}, on: []featuregate.Feature{"PodDeletionCost"}},
		"unknown":        {set: map[string]bool{"Unheard": true}, err: "unrecognized feature gate: Unheard"},
		"locked":         {set: map[string]bool{"SidecarContainers": false}, err: "SidecarContainers"},
		"not supported":  {set: map[string]bool{"PodDeletionCost": false}, err: "PodDeletionCost=false"},
		"all of a stage": {set: map[string]bool{"AllAlpha": true}, err: "DRAResourcePoolStatus=true"},
		"none of alpha":  {set: map[string]bool{"AllAlpha": false}},
		"without base":   {set: map[string]bool{deviceTaints: false, deviceTaintRules: true}, err: "needs DRADeviceTaints"},
	} {
		t.Run(name, func(t *testing.T) {
			config := Config{FeatureGates: c.set}
			_, err := config.gates()
			if (c.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want one with %q", err, c.err)
			}
			for _, gate := range c.on {
				if !config.on(gate) {
					t.Errorf("%s is off", gate)
				}
			}
			for _, gate := range c.off {
				if config.on(gate) {
					t.Errorf("%s is on", gate)
				}
			}
		})
	}
}

// TestGatesAreTheRelease: the lists name gates that the release has, once, and that can be set there.
func TestGatesAreTheRelease(t *testing.T) {
	known := release.Gates()
	names := slices.Concat(switchable(), unswitched())
	for _, name := range names {
		if spec, ok := known[featuregate.Feature(name)]; !ok || spec.LockToDefault {
			t.Errorf("%s is no gate that can be set: %+v", name, spec)
		}
	}
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Error("a gate is listed twice")
	}
}
