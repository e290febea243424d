package cluster_test

import (
	"strings"
	"testing"

	"quintet.dev/quintet/cluster/rungtest"
)

// TestRungs climbs the rungs that need no Docker; e2e climbs the others.
func TestRungs(t *testing.T) {
	for _, rung := range rungtest.Rungs() {
		if strings.HasPrefix(string(rung.Name), "in process") {
			t.Run(string(rung.Name), func(t *testing.T) { rungtest.Run(t, rung) })
		}
	}
}
