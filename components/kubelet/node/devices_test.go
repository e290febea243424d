package node

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

const widget, other = v1.ResourceName("example.com/widget"), v1.ResourceName("example.com/other")

// The status shows what drivers have; what an earlier status says of other extended resources counts only if the
// allocations of then are still known.
func TestDevicesInStatus(t *testing.T) {
	for reset, want := range map[bool]string{false: "7", true: "0"} {
		seven := v1.ResourceList{other: resource.MustParse("7")}
		client := fake.NewClientset(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"},
			Status: v1.NodeStatus{Capacity: seven, Allocatable: seven.DeepCopy()}})
		start(t, client, func(c *Config) {
			c.Name = "n"
			c.ResetDevices = func() bool { return reset }
			c.Devices = func() (has, free v1.ResourceList) {
				return v1.ResourceList{widget: resource.MustParse("3")}, v1.ResourceList{widget: resource.MustParse("2")}
			}
		})
		amount := func(list v1.ResourceList, name v1.ResourceName) string {
			q := list[name]
			return q.String()
		}
		await(t, "devices in the status", func() bool {
			node, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
			return err == nil && amount(node.Status.Capacity, widget) == "3" &&
				amount(node.Status.Allocatable, widget) == "2" && amount(node.Status.Capacity, other) == want &&
				amount(node.Status.Allocatable, other) == want
		})
	}
}
