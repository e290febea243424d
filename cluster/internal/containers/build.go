package containers

import (
	"context"

	"quintet.dev/quintet/images"
)

// BuildImages builds those of Quintet's images that the engine lacks and returns the reference of each by its name; no
// name means all. again looks at every source, as if none were known. report is called from one goroutine at a time.
func BuildImages(ctx context.Context, names []string, again bool, report func(string)) (map[string]string, error) {
	docker, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	defer docker.Close()
	return images.Builder{Engine: images.Engine{Client: docker.Client}, Report: report, Again: again}.Ensure(ctx, names...)
}

// Images lists Quintet's images in the engine.
func Images(ctx context.Context) ([]images.Image, error) {
	docker, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	defer docker.Close()
	return images.Engine{Client: docker.Client}.Images(ctx)
}
