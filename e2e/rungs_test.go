package e2e

import (
	"testing"

	"quintet.dev/quintet/cluster/rungtest"
)

// TestRungs: the same options have the same effect in this process and in containers, with hollow and with real nodes.
func TestRungs(t *testing.T) {
	for _, rung := range rungtest.Rungs() {
		t.Run(string(rung.Name), func(t *testing.T) { rungtest.Run(t, rung) })
	}
}
