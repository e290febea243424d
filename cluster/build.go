package cluster

import (
	"context"
	"time"

	"quintet.dev/quintet/cluster/internal/containers"
	"quintet.dev/quintet/images"
)

// BuildImages builds those of Quintet's images that this machine's Docker engine lacks, and returns the reference of
// each by its name; no name means all. Start does so with what it needs; tests that start many clusters may have it
// done before. report is called from one goroutine at a time; nil means that nothing is reported.
func BuildImages(ctx context.Context, report func(text string), names ...string) (map[string]string, error) {
	if report == nil {
		report = func(string) {}
	}
	return containers.BuildImages(ctx, names, true, report)
}

// Images lists Quintet's images in this machine's Docker engine.
func Images(ctx context.Context) ([]images.Image, error) { return containers.Images(ctx) }

// ownImages are the components that run from images of this module.
func (c *config) ownImages() []Component {
	var own []Component
	for _, component := range []Component{Etcd, APIServer, APIBalancer, ControllerManager, Scheduler, Routes, Node,
		CloudProvider, MetricsServer, Registry, CSIDriver, DeviceDriver} {
		_, given := c.images[component]
		if given || !c.runs(component) || c.inThisProcess(component) {
			continue
		}
		own = append(own, component)
	}
	if c.diskSize > 0 || c.nodeDisk > 0 {
		own = append(own, faultInjector)
	}
	return own
}

// builtImage is the image of a component that a running cluster turns out to need, which is built if the engine lacks
// it.
func (c *config) builtImage(ctx context.Context, component Component) (string, error) {
	notice := func(text string) { c.progress(Event{Notice: text}) }
	refs, err := containers.BuildImages(ctx, []string{string(component)}, false, notice)
	return refs[string(component)], err
}

// provideImages builds what the engine lacks. It is no step: where all is there, nothing is reported.
func (c *config) provideImages(ctx context.Context) error {
	own := c.ownImages()
	if c.inProcess || len(own) == 0 {
		return nil
	}
	var names []string
	for _, component := range own {
		names = append(names, string(component))
	}
	began, built := time.Now(), false
	refs, err := containers.BuildImages(ctx, names, false, func(text string) {
		built = true
		c.progress(Event{Notice: text})
	})
	if built {
		c.progress(Event{Step: "build images", Done: true, Took: time.Since(began), Err: err})
	}
	if err != nil {
		return err
	}
	for _, component := range own {
		c.built[component] = refs[string(component)]
	}
	return nil
}
