package csidriver

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
)

// TestSanity runs the suite that every CSI driver is to pass, once with volumes that are mounted and, where there are
// loop devices, once with block volumes.
func TestSanity(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting needs root")
	}
	accessTypes := []string{"mount"}
	if hasLoops(t) {
		accessTypes = append(accessTypes, "block")
	}
	for _, access := range accessTypes {
		config := testConfig(t)
		config.mounts = systemMounts{}
		run(t, config)
		suite := sanity.NewTestConfig()
		suite.Address = "unix://" + config.Endpoint
		dir := t.TempDir()
		suite.TargetPath, suite.StagingPath = filepath.Join(dir, "target"), filepath.Join(dir, "staging")
		suite.TestVolumeAccessType = access
		suite.TestVolumeSize, suite.TestVolumeExpandSize = 1<<20, 2<<20
		defer sanity.GinkgoTest(&suite).Finalize()
	}
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.RunSpecs(t, "CSI driver")
}

func hasLoops(t *testing.T) bool {
	t.Helper()
	file := filepath.Join(t.TempDir(), "disk")
	if err := resizeFile(file, 1<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := (systemMounts{}).attachLoop(file); err != nil {
		t.Logf("no loop devices: %v", err)
		return false
	}
	if err := (systemMounts{}).detachLoop(file); err != nil {
		t.Fatal(err)
	}
	return true
}

// run runs a driver until the test ends.
func run(t *testing.T, config *Config) {
	t.Helper()
	d, err := New(*config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the driver ended: %v", err)
		}
	})
}

// testConfig is of a driver in directories of the test.
func testConfig(t *testing.T) *Config {
	t.Helper()
	config := NewConfig()
	dir, err := os.MkdirTemp("", "csi") // short: a socket's path has a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	config.NodeID, config.Root, config.Endpoint = "node-1", filepath.Join(dir, "root"), filepath.Join(dir, "csi.sock")
	return config
}
