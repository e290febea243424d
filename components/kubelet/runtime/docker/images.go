package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Image implements runtime.Images.
func (e *Engine) Image(ctx context.Context, ref string) (_ runtime.Image, err error) {
	defer e.observe("image_status", &err)()
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
func (e *Engine) Images(ctx context.Context) (_ []runtime.Image, err error) {
	defer e.observe("list_images", &err)()
	answer, err := e.api.ImageList(ctx, client.ImageListOptions{})
	if err != nil {
		return nil, err
	}
	images := make([]runtime.Image, 0, len(answer.Items))
	for _, item := range answer.Items {
		images = append(images, runtime.Image{ID: item.ID, Tags: item.RepoTags, Digests: item.RepoDigests,
			SizeBytes: item.Size})
	}
	return images, nil
}

// SaveImage implements runtime.ImageSaver.
func (e *Engine) SaveImage(ctx context.Context, id string) (io.ReadCloser, error) {
	archive, err := e.api.ImageSave(ctx, []string{id})
	return archive, mark(err)
}

// RemoveImage implements runtime.Images. An image goes name by name, as the engine refuses to remove one that has
// several names; and never by force, which takes the names from the image of a container that is stopped.
func (e *Engine) RemoveImage(ctx context.Context, id string) (err error) {
	defer e.observe("remove_image", &err)()
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	image, err := e.Image(ctx, id)
	if errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	names := slices.Concat(image.Tags, image.Digests)
	if len(names) == 0 {
		names = []string{image.ID}
	}
	for _, name := range names {
		_, err := e.api.ImageRemove(ctx, name, client.ImageRemoveOptions{PruneChildren: true})
		if err = mark(err); err != nil && !errors.Is(err, runtime.ErrNotFound) { // with its last tag, a digest goes too
			return err
		}
	}
	return nil
}

// ImageFilesystem implements runtime.Images.
func (e *Engine) ImageFilesystem(context.Context) (runtime.Filesystem, error) {
	disk, err := diskOf(e.root)
	if err != nil {
		return runtime.Filesystem{}, fmt.Errorf("file system of images at %s: %w", e.root, err)
	}
	disk.Path = e.root
	return disk, nil
}

// Pull implements runtime.Images.
func (e *Engine) Pull(ctx context.Context, ref string, credential runtime.Credential) (_ runtime.Image, err error) {
	defer e.observe("pull_image", &err)()
	if err := e.pull(ctx, ref, credential); err != nil {
		return runtime.Image{}, err
	}
	return e.Image(ctx, ref)
}

// pull ends when the engine has the image, or told of no progress for as long as is allowed.
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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := newStallTimer(e.options.PullProgressDeadline, cancel)
	defer stalled.stop()
	pulling, err := e.api.ImagePull(ctx, ref, options)
	if err != nil {
		return cause(ctx, err)
	}
	for message, err := range pulling.JSONMessages(ctx) {
		switch {
		case err != nil:
			return cause(ctx, err)
		case message.Error != nil:
			return message.Error
		}
		stalled.progress(progressOf(message))
	}
	return cause(ctx, ctx.Err())
}
