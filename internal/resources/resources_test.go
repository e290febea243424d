package resources

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestNames(t *testing.T) {
	for name, want := range map[string]struct{ native, extended bool }{
		"cpu":                                    {true, false},
		"hugepages-2Mi":                          {true, false},
		"kubernetes.io/batch":                    {true, false},
		"x.kubernetes.io/y":                      {true, false},
		"deviceclass.resource.kubernetes.io/gpu": {true, false},
		"example.com/gpu":                        {false, true},
		"mykubernetes.io/gpu":                    {true, false},
		"kubernetes.io.example.com/gpu":          {false, true},
		"example.com/":                           {false, false},
		"requests.example.com/gpu":               {false, false},
		"example.com/a b":                        {false, false},
		"example.com/a/b":                        {false, false},
		"example.com/" + strings.Repeat("a", 64): {false, false},
		strings.Repeat("a.", 122) + "com/gpu":    {false, false}, // 253 characters with the prefix are the most
	} {
		if got := Native(corev1.ResourceName(name)); got != want.native {
			t.Errorf("%s is native: %v", name, got)
		}
		if got := Extended(corev1.ResourceName(name)); got != want.extended {
			t.Errorf("%s is extended: %v", name, got)
		}
	}
}
