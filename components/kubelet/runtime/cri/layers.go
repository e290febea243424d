package cri

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"quintet.dev/quintet/components/kubelet/runtime"
)

var _ runtime.ImageSaver = (*Engine)(nil)

// containerd is the name that this engine gives itself; what it has of Kubernetes is in a namespace of its own.
const (
	containerd          = "containerd"
	namespaceHeader     = "containerd-namespace"
	kubernetesNamespace = "k8s.io"
)

// SaveImage implements runtime.ImageSaver. Of containerd only versions from 2.1 mount images for containers (KEP-4639),
// and CRI has no other request for the files of an image: they are asked of containerd's own services, which listen on
// the same socket.
func (e *Engine) SaveImage(ctx context.Context, id string) (io.ReadCloser, error) {
	if name := e.version.GetRuntimeName(); name != containerd {
		return nil, fmt.Errorf("container engine %s does not give the files of images away: image volumes need %s",
			name, containerd)
	}
	return saveImage(ctx, e.connections[len(e.connections)-1], id)
}

// saveImage writes the layers of an image for this machine as "docker save" does. Layers stay compressed as they are.
func saveImage(ctx context.Context, connection grpc.ClientConnInterface, id string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, namespaceHeader, kubernetesNamespace))
	found, err := imagesapi.NewImagesClient(connection).Get(ctx, &imagesapi.GetImageRequest{Name: id})
	if err != nil {
		cancel()
		return nil, mark(err)
	}
	content := blobs{contentapi.NewContentClient(connection)}
	target := found.GetImage().GetTarget()
	manifest, err := content.manifest(ctx, target.GetMediaType(), target.GetDigest())
	if err != nil {
		cancel()
		return nil, err
	}
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(content.archive(ctx, manifest, writer)) }() // ends with the reader, too
	return &savedImage{reader, cancel}, nil
}

// savedImage ends what writes it when it is closed.
type savedImage struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (s *savedImage) Close() error {
	s.cancel()
	return s.PipeReader.Close()
}

// blobs are what containerd keeps of images, by digest.
type blobs struct{ contentapi.ContentClient }

// mostNested is how many indexes may lead to a manifest.
const mostNested = 3

// manifest finds the manifest of this machine's platform.
func (b blobs) manifest(ctx context.Context, mediaType, digest string) (*ocispec.Manifest, error) {
	for range mostNested {
		var text bytes.Buffer
		if err := b.copy(ctx, digest, &text); err != nil {
			return nil, err
		}
		var either struct {
			ocispec.Manifest
			Manifests []ocispec.Descriptor `json:"manifests"`
		}
		if err := json.Unmarshal(text.Bytes(), &either); err != nil {
			return nil, fmt.Errorf("%s %s: %w", mediaType, digest, err)
		}
		if len(either.Manifests) == 0 {
			return &either.Manifest, nil
		}
		chosen := ofMachine(either.Manifests)
		if chosen == nil {
			return nil, fmt.Errorf("the image has no files for %s", platforms.DefaultString())
		}
		mediaType, digest = chosen.MediaType, chosen.Digest.String()
	}
	return nil, errors.New("the image has too many indexes within each other")
}

// ofMachine is the entry of an index that this machine runs, the best first; nil if there is none. One that names no
// platform is for all.
func ofMachine(list []ocispec.Descriptor) *ocispec.Descriptor {
	machine := platforms.Default()
	var best *ocispec.Descriptor
	for i := range list {
		d := &list[i]
		switch {
		case d.Platform != nil && !machine.Match(*d.Platform):
		case best == nil, best.Platform == nil && d.Platform != nil,
			best.Platform != nil && d.Platform != nil && machine.Less(*d.Platform, *best.Platform):
			best = d
		}
	}
	return best
}

// copy writes a blob.
func (b blobs) copy(ctx context.Context, digest string, to io.Writer) error {
	stream, err := b.Read(ctx, &contentapi.ReadContentRequest{Digest: digest})
	for err == nil {
		var part *contentapi.ReadContentResponse
		if part, err = stream.Recv(); err == nil {
			_, err = to.Write(part.GetData())
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("content %s: %w", digest, mark(err))
}

// archive writes the layers of an image, and which they are.
func (b blobs) archive(ctx context.Context, manifest *ocispec.Manifest, to io.Writer) error {
	image := struct{ Layers []string }{Layers: []string{}}
	for _, layer := range manifest.Layers {
		image.Layers = append(image.Layers, layer.Digest.Encoded())
	}
	list, err := json.Marshal([]any{image})
	if err != nil {
		return err
	}
	out := tar.NewWriter(to)
	if err := out.WriteHeader(&tar.Header{Name: "manifest.json", Mode: 0o600, Size: int64(len(list))}); err != nil {
		return err
	}
	if _, err := out.Write(list); err != nil {
		return err
	}
	for _, layer := range manifest.Layers {
		header := &tar.Header{Name: layer.Digest.Encoded(), Mode: 0o600, Size: layer.Size}
		if err := out.WriteHeader(header); err != nil {
			return err
		}
		if err := b.copy(ctx, layer.Digest.String(), out); err != nil {
			return err
		}
	}
	return out.Close()
}
