package extendedresources

import "testing"

func TestExtended(t *testing.T) {
	for name, want := range map[string]bool{
		"example.com/gpu": true, "cpu": false, "kubernetes.io/gpu": false, "my.kubernetes.io/gpu": false, "mykubernetes.io/gpu": false,
		"kubernetes.io.example.com/gpu": true, "requests.example.com/gpu": false, "example.com/": false,
	} {
		if extended(name) != want {
			t.Errorf("%s: want %v", name, want)
		}
	}
}
