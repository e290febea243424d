package cluster

import (
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	"quintet.dev/quintet/internal/strictyaml"
)

// resourcesSpec is what each node has.
type resourcesSpec struct {
	CPUs   int        `json:"cpus"`
	Memory amountSpec `json:"memory"`
	Disk   amountSpec `json:"disk"`
}

// amountSpec is a number of bytes, as a quantity.
type amountSpec int64

// DecodeYAML implements strictyaml.Unmarshaler.
func (a *amountSpec) DecodeYAML(d *strictyaml.Decoder, path string, node *yaml.Node) {
	quantity, err := resource.ParseQuantity(node.Value)
	if node.Kind != yaml.ScalarNode || err != nil || quantity.Sign() <= 0 {
		d.Fail(path, node, "want a number of bytes, such as 2Gi")
		return
	}
	*a = amountSpec(quantity.Value())
}

func (r resourcesSpec) settings() (settings []setting) {
	if r.CPUs != 0 || r.Memory != 0 {
		settings = append(settings, setting{"nodeResources", WithNodeResources(r.CPUs, int64(r.Memory))})
	}
	if r.Disk != 0 {
		settings = append(settings, setting{"nodeResources.disk", WithNodeDisk(int64(r.Disk))})
	}
	return settings
}

// shutdownSettings have nodes end their pods when they are stopped.
func (s *clusterSpec) shutdownSettings() []setting {
	total, critical := s.ShutdownGracePeriod.Duration, s.ShutdownGracePeriodCriticalPods.Duration
	switch {
	case total != 0:
		return []setting{{"shutdownGracePeriod", WithGracefulNodeShutdown(total, critical)}}
	case critical != 0:
		return []setting{{"shutdownGracePeriodCriticalPods", WithGracefulNodeShutdown(total, critical)}}
	}
	return nil
}
