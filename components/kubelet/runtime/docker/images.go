package docker

import (
	"context"
	"errors"
	"fmt"

	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Image implements runtime.Images.
func (e *Engine) Image(ctx context.Context, ref string) (runtime.Image, error) {
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	answer, err := e.api.ImageInspect(ctx, ref)
	if err != nil {
		return runtime.Image{}, mark(err)
	}
	image := runtime.Image{ID: answer.ID, Tags: answer.RepoTags, Digests: answer.RepoDigests, SizeBytes: answer.Size}
	if answer.Config != nil {
		image.User = answer.Config.User
	}
	return image, nil
}

// Images implements runtime.Images.
func (e *Engine) Images(ctx context.Context) ([]runtime.Image, error) {
	answer, err := e.api.ImageList(ctx, client.ImageListOptions{})
	if err != nil {
		return nil, err
	}
	images := make([]runtime.Image, 0, len(answer.Items))
	for _, item := range answer.Items {
		images = append(images, runtime.Image{ID: item.ID, Tags: item.RepoTags, Digests: item.RepoDigests, SizeBytes: item.Size})
	}
	return images, nil
}

// Pull implements runtime.Images.
func (e *Engine) Pull(ctx context.Context, ref string, credentials []runtime.Credential) (runtime.Image, error) {
	if len(credentials) == 0 {
		credentials = []runtime.Credential{{}}
	}
	var failures []error
	for _, credential := range credentials {
		err := e.pull(ctx, ref, credential)
		if err == nil {
			return e.Image(ctx, ref)
		}
		failures = append(failures, err)
	}
	return runtime.Image{}, errors.Join(failures...)
}

func (e *Engine) pull(ctx context.Context, ref string, credential runtime.Credential) error {
	options := client.ImagePullOptions{}
	if credential != (runtime.Credential{}) {
		auth, err := authconfig.Encode(registry.AuthConfig{
			Username: credential.Username, Password: credential.Password, Auth: credential.Auth,
			ServerAddress: credential.ServerAddress, IdentityToken: credential.IdentityToken,
			RegistryToken: credential.RegistryToken,
		})
		if err != nil {
			return fmt.Errorf("encode credentials for %s: %w", credential.ServerAddress, err)
		}
		options.RegistryAuth = auth
	}
	pulling, err := e.api.ImagePull(ctx, ref, options)
	if err != nil {
		return err
	}
	return pulling.Wait(ctx)
}
