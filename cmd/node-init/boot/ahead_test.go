package boot

import "testing"

func TestOwnPlaces(t *testing.T) {
	for arg, want := range map[string]bool{
		"--data-root=/data": true, "--containerd": true, "-g": true, "--log-level=warn": false,
		"--containerd-namespace=x": false,
	} {
		if ownPlaces([]string{"dockerd", "--debug", arg}) != want {
			t.Errorf("%s: %t", arg, !want)
		}
	}
}

// TestOwnContainerd: dockerd gets a containerd that was started ahead of it, unless arguments say otherwise.
func TestOwnContainerd(t *testing.T) {
	argv, err := dockerdCommand(t.TempDir())
	if err != nil || ownPlaces(argv) {
		t.Errorf("%v, %v", argv, err)
	}
}
