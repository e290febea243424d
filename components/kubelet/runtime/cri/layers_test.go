package cri

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	"github.com/containerd/containerd/api/types"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"quintet.dev/quintet/components/kubelet/volumes/layers"
)

// store is what containerd has of images, in the namespace of Kubernetes only.
type store struct {
	imagesapi.UnimplementedImagesServer
	images map[string]ocispec.Descriptor
	blobs  map[digest.Digest][]byte
}

func (s *store) add(t *testing.T, content any) ocispec.Descriptor {
	t.Helper()
	data, raw := content.([]byte)
	if !raw {
		var err error
		if data, err = json.Marshal(content); err != nil {
			t.Fatal(err)
		}
	}
	d := digest.FromBytes(data)
	s.blobs[d] = data
	return ocispec.Descriptor{Digest: d, Size: int64(len(data))}
}

func ours(ctx context.Context) error {
	if values := metadata.ValueFromIncomingContext(ctx, namespaceHeader); len(values) != 1 || values[0] != "k8s.io" {
		return status.Error(codes.FailedPrecondition, "namespace is required")
	}
	return nil
}

func (s *store) Get(ctx context.Context, r *imagesapi.GetImageRequest) (*imagesapi.GetImageResponse, error) {
	if err := ours(ctx); err != nil {
		return nil, err
	}
	d, ok := s.images[r.Name]
	if !ok {
		return nil, status.Error(codes.NotFound, "image "+r.Name+": not found")
	}
	target := &types.Descriptor{Digest: d.Digest.String()}
	return &imagesapi.GetImageResponse{Image: &imagesapi.Image{Target: target}}, nil
}

// contents serves the blobs of a store.
type contents struct {
	contentapi.UnimplementedContentServer
	*store
}

// Read sends blobs in two parts.
func (s contents) Read(r *contentapi.ReadContentRequest, stream contentapi.Content_ReadServer,
) error {
	if err := ours(stream.Context()); err != nil {
		return err
	}
	data, ok := s.blobs[digest.Digest(r.Digest)]
	if !ok {
		return status.Error(codes.NotFound, "content "+r.Digest+": not found")
	}
	for _, part := range [][]byte{data[:len(data)/2], data[len(data)/2:]} {
		if err := stream.Send(&contentapi.ReadContentResponse{Data: part}); err != nil {
			return err
		}
	}
	return nil
}

// engine serves the store on a socket, as an engine of a name.
func (s *store) engine(t *testing.T, name string) *Engine {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	imagesapi.RegisterImagesServer(server, s)
	contentapi.RegisterContentServer(server, contents{store: s})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return &Engine{connections: []*grpc.ClientConn{connection}, version: &criapi.VersionResponse{RuntimeName: name}}
}

func layer(t *testing.T, name, text string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func TestSaveImage(t *testing.T) {
	s := &store{images: map[string]ocispec.Descriptor{}, blobs: map[digest.Digest][]byte{}}
	manifest := func(list ...ocispec.Descriptor) ocispec.Descriptor {
		return s.add(t, ocispec.Manifest{Layers: list})
	}
	right := manifest(s.add(t, layer(t, "a", "first")), s.add(t, layer(t, "b", "second")))
	machine := platforms.DefaultSpec()
	right.Platform = &machine
	wrong := manifest(s.add(t, layer(t, "a", "of another machine")))
	wrong.Platform = &ocispec.Platform{OS: "plan9", Architecture: "mips"}
	s.images["single"] = right
	s.images["index"] = s.add(t, ocispec.Index{Manifests: []ocispec.Descriptor{wrong, right}})
	s.images["foreign"] = s.add(t, ocispec.Index{Manifests: []ocispec.Descriptor{wrong}})
	s.images["discarded"] = manifest(ocispec.Descriptor{Digest: digest.FromString("gone"), Size: 3})
	e := s.engine(t, "containerd")
	for _, name := range []string{"single", "index"} {
		archive, err := e.SaveImage(t.Context(), name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		root := filepath.Join(t.TempDir(), "root")
		err = layers.Unpack(archive, filepath.Join(t.TempDir(), "work"), root)
		if closeErr := archive.Close(); err != nil || closeErr != nil {
			t.Fatalf("%s: %v, %v", name, err, closeErr)
		}
		for file, want := range map[string]string{"a": "first", "b": "second"} {
			if text, err := os.ReadFile(filepath.Join(root, file)); err != nil || string(text) != want {
				t.Errorf("%s: %s has %q, %v", name, file, text, err)
			}
		}
	}
	for name, want := range map[string]string{"missing": "not found", "foreign": "no files for"} {
		if _, err := e.SaveImage(t.Context(), name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	archive, err := e.SaveImage(t.Context(), "discarded")
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	dir := t.TempDir()
	if err := layers.Unpack(archive, filepath.Join(dir, "w"), filepath.Join(dir, "r")); err == nil ||
		!strings.Contains(err.Error(), "not found") {
		t.Errorf("an image whose layers are not kept: %v", err)
	}
	if _, err := s.engine(t, "cri-o").SaveImage(t.Context(), "single"); err == nil ||
		!strings.Contains(err.Error(), "cri-o") {
		t.Errorf("another engine: %v", err)
	}
}
