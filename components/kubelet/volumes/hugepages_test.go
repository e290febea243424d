package volumes

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestPageSize(t *testing.T) {
	for name, test := range map[string]struct {
		medium   v1.StorageMedium
		requests []string
		want     int64
		fails    string
	}{
		"the one size":   {medium: "HugePages", requests: []string{"hugepages-2Mi", "cpu"}, want: 2 << 20},
		"no size":        {medium: "HugePages", requests: []string{"memory"}, fails: "it requests 0 sizes"},
		"two sizes":      {medium: "HugePages", requests: []string{"hugepages-2Mi", "hugepages-1Gi"}, fails: "2 sizes"},
		"a size":         {medium: "HugePages-1Gi", requests: []string{"hugepages-2Mi", "hugepages-1Gi"}, want: 1 << 30},
		"another size":   {medium: "HugePages-1Gi", requests: []string{"hugepages-2Mi"}, fails: "no huge pages of that size"},
		"not a quantity": {medium: "HugePages-large", fails: "medium HugePages-large"},
	} {
		t.Run(name, func(t *testing.T) {
			requests := v1.ResourceList{}
			for _, request := range test.requests {
				requests[v1.ResourceName(request)] = resource.MustParse("1Gi")
			}
			pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{
				{Name: "c", Resources: v1.ResourceRequirements{Requests: requests}},
			}}}
			got, err := pageSize(pod, test.medium)
			if got != test.want || (err != nil) != (test.fails != "") ||
				err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("got %d, %v, want %d, %q", got, err, test.want, test.fails)
			}
			if !inHugePages(test.medium) || inHugePages("Memory") || inHugePages("") {
				t.Error("media are mistaken for others")
			}
		})
	}
}
