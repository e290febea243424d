package cri

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// Image implements runtime.Images.
func (e *Engine) Image(ctx context.Context, ref string) (_ runtime.Image, err error) {
	defer e.observe("image_status", &err)()
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	answer, err := e.images.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: ref}})
	if err != nil {
		return runtime.Image{}, mark(err)
	}
	if answer.GetImage() == nil {
		return runtime.Image{}, fmt.Errorf("image %s: %w", ref, runtime.ErrNotFound)
	}
	return imageOf(answer.GetImage()), nil
}

func imageOf(in *cri.Image) runtime.Image {
	image := runtime.Image{ID: in.GetId(), Tags: in.GetRepoTags(), Digests: in.GetRepoDigests(),
		SizeBytes: int64(in.GetSize()), User: in.GetUsername()}
	if in.GetUid() != nil {
		image.User = strconv.FormatInt(in.GetUid().GetValue(), 10)
	}
	return image
}

// Images implements runtime.Images.
func (e *Engine) Images(ctx context.Context) (_ []runtime.Image, err error) {
	defer e.observe("list_images", &err)()
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	answer, err := e.images.ListImages(ctx, &cri.ListImagesRequest{})
	if err != nil {
		return nil, mark(err)
	}
	images := make([]runtime.Image, 0, len(answer.GetImages()))
	for _, image := range answer.GetImages() {
		images = append(images, imageOf(image))
	}
	return images, nil
}

// errInUse tells that an image can't be removed.
var errInUse = errors.New("the image is used")

// RemoveImage implements runtime.Images. Engines remove the image of a container, too, if they are asked to.
func (e *Engine) RemoveImage(ctx context.Context, id string) (err error) {
	defer e.observe("remove_image", &err)()
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	listed, err := e.runtime.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		return mark(err)
	}
	for _, c := range listed.GetContainers() {
		if c.GetImageId() == id || c.GetImageRef() == id {
			return fmt.Errorf("remove image %s: %w by container %s", id, errInUse, c.GetId())
		}
	}
	_, err = e.images.RemoveImage(ctx, &cri.RemoveImageRequest{Image: &cri.ImageSpec{Image: id}})
	return ignoreAbsent(mark(err))
}

// ImageFilesystem implements runtime.Images.
func (e *Engine) ImageFilesystem(ctx context.Context) (_ runtime.Filesystem, err error) {
	defer e.observe("image_fs_info", &err)()
	ctx, cancel := bounded(ctx, 0)
	defer cancel()
	answer, err := e.images.ImageFsInfo(ctx, &cri.ImageFsInfoRequest{})
	if err != nil {
		return runtime.Filesystem{}, mark(err)
	}
	if len(answer.GetImageFilesystems()) == 0 {
		return runtime.Filesystem{}, errors.New("the container engine tells of no file system of images")
	}
	path := answer.GetImageFilesystems()[0].GetFsId().GetMountpoint()
	disk, err := diskOf(path)
	if err != nil {
		return runtime.Filesystem{}, fmt.Errorf("file system of images at %s: %w", path, err)
	}
	return disk, nil
}

// Pull implements runtime.Images.
func (e *Engine) Pull(ctx context.Context, ref string, credential runtime.Credential) (_ runtime.Image, err error) {
	defer e.observe("pull_image", &err)()
	request := &cri.PullImageRequest{Image: &cri.ImageSpec{Image: ref, UserSpecifiedImage: ref}}
	if credential != (runtime.Credential{}) {
		request.Auth = &cri.AuthConfig{
			Username: credential.Username, Password: credential.Password, Auth: credential.Auth,
			ServerAddress: credential.ServerAddress, IdentityToken: credential.IdentityToken,
			RegistryToken: credential.RegistryToken,
		}
	}
	answer, err := e.images.PullImage(ctx, request)
	if err != nil {
		return runtime.Image{}, mark(err)
	}
	return e.Image(ctx, answer.GetImageRef())
}
