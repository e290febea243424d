// Package imagelocality prefers nodes that have a pod's images already.
package imagelocality

import (
	"strings"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/queue"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Name of the plug-in.
const Name = "ImageLocality"

// Between these sums of image sizes, a container's, scores rise from 0 to the best.
const (
	least            int64 = 23 << 20
	mostPerContainer int64 = 1000 << 20
)

// Plugin is a cycle.Score.
type Plugin struct{}

// Name returns Name.
func (Plugin) Name() string { return Name }

// Hints are none: it refuses nothing.
func (Plugin) Hints() []queue.Hint { return nil }

// Score sums the sizes of images a node has, each scaled by the share of nodes that have it, lest a node that got
// an image first draw all pods.
func (Plugin) Score(p *snapshot.Pod, s *snapshot.Snapshot, nodes []*snapshot.Node, scores []int64) bool {
	images, containers := wanted(p, s)
	if len(images) == 0 {
		return false
	}
	total := int64(len(s.Nodes()))
	most := mostPerContainer * containers
	for i, n := range nodes {
		var sum int64
		for _, image := range images {
			if size, ok := n.Images[image]; ok {
				sum += size * int64(s.ImageSpread(image)) / total
			}
		}
		sum = min(max(sum, least), most)
		scores[i] = cycle.MaxScore * (sum - least) / (most - least)
	}
	return true
}

// wanted are the images that some node has, and how many containers count.
func wanted(p *snapshot.Pod, s *snapshot.Snapshot) (images []string, containers int64) {
	containers = int64(len(p.Obj.Spec.InitContainers) + len(p.Obj.Spec.Containers))
	add := func(image string) {
		if image = normalized(image); s.ImageSpread(image) > 0 {
			images = append(images, image)
		}
	}
	for i := range p.Obj.Spec.InitContainers {
		add(p.Obj.Spec.InitContainers[i].Image)
	}
	for i := range p.Obj.Spec.Containers {
		add(p.Obj.Spec.Containers[i].Image)
	}
	return images, containers
}

// normalized adds the tag that an image without one means.
func normalized(image string) string {
	if strings.LastIndex(image, ":") <= strings.LastIndex(image, "/") {
		return image + ":latest"
	}
	return image
}
