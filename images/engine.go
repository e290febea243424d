package images

import (
	"archive/tar"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/client"
)

// Labels of images.
const (
	labelImage  = "io.quintet.image"
	labelName   = "io.quintet.name"
	labelSource = "io.quintet.source"
)

// Engine is a Docker engine.
type Engine struct{ Client *client.Client }

// target is what programs are built for.
type target struct{ os, arch string }

// Image is an image of this project in an engine.
type Image struct {
	Name    string    `json:"name"`
	Ref     string    `json:"ref"`
	Tag     string    `json:"tag"`
	ID      string    `json:"id"`
	Size    int64     `json:"size"` // bytes
	Created time.Time `json:"created"`
	// Source is the same for all images of a checkout, or of a release.
	Source string `json:"source,omitempty"`
}

// Images lists the images in the engine, by reference.
func (e Engine) Images(ctx context.Context) ([]Image, error) { return e.list(ctx) }

func (m *making) labels(name string) map[string]string {
	return map[string]string{labelImage: "true", labelName: name, labelSource: m.source.id()}
}

func (e Engine) target(ctx context.Context) (target, error) {
	version, err := e.Client.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return target{}, err
	}
	return target{os: version.Os, arch: version.Arch}, nil
}

func (e Engine) has(ctx context.Context, ref string) (bool, error) {
	_, err := e.Client.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

func (e Engine) tag(ctx context.Context, ref, name string) error {
	_, err := e.Client.ImageTag(ctx, client.ImageTagOptions{Source: ref, Target: name})
	return err
}

// remove removes a name of an image, and the image unless it has another name or a container.
func (e Engine) remove(ctx context.Context, ref string) {
	_, _ = e.Client.ImageRemove(ctx, ref, client.ImageRemoveOptions{PruneChildren: true}) // stays if it is in use
}

func (e Engine) list(ctx context.Context) ([]Image, error) {
	found, err := e.Client.ImageList(ctx, client.ImageListOptions{
		Filters: make(client.Filters).Add("label", labelImage+"=true")})
	if err != nil {
		return nil, err
	}
	images := []Image{}
	for _, item := range found.Items {
		for _, ref := range item.RepoTags {
			repository, tag, _ := strings.Cut(ref, ":")
			images = append(images, Image{
				Name: cmp.Or(item.Labels[labelName], repository[strings.LastIndex(repository, "/")+1:]), Ref: ref, Tag: tag,
				ID: item.ID, Size: item.Size, Created: time.Unix(item.Created, 0).UTC(), Source: item.Labels[labelSource],
			})
		}
	}
	slices.SortFunc(images, func(a, b Image) int { return cmp.Compare(a.Ref, b.Ref) })
	return images, nil
}

// save writes the archive of an image to a file.
func (e Engine) save(ctx context.Context, ref, path string) error {
	saved, err := e.Client.ImageSave(ctx, []string{ref})
	if err != nil {
		return fmt.Errorf("save image %s: %w", ref, err)
	}
	defer saved.Close()
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, saved)
	return errors.Join(err, file.Close())
}

// build builds an image of a context. The builder is the one that every engine has: there is nothing to gain from
// another for images of one layer.
func (e Engine) build(ctx context.Context, content buildContext, ref string, labels map[string]string,
	args map[string]*string) error {
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(content.write(writer)) }()
	defer reader.Close()
	built, err := e.Client.ImageBuild(ctx, reader, client.ImageBuildOptions{
		Tags: []string{ref}, Labels: labels, BuildArgs: args, Remove: true, ForceRemove: true, Version: build.BuilderV1,
	})
	if err != nil {
		return err
	}
	defer built.Body.Close()
	return lastError(built.Body)
}

// importTar makes an image of a file system.
func (e Engine) importTar(ctx context.Context, files io.Reader, ref string, labels map[string]string) error {
	var changes []string
	for name, value := range labels {
		changes = append(changes, fmt.Sprintf("LABEL %s=%s", name, value))
	}
	imported, err := e.Client.ImageImport(ctx, client.ImageImportSource{Source: files, SourceName: "-"}, ref,
		client.ImageImportOptions{Changes: changes})
	if err != nil {
		return err
	}
	defer imported.Close()
	return lastError(imported)
}

// lastError reads messages of the engine to their end and returns the error among them, with what was said before.
func lastError(messages io.Reader) error {
	said := ""
	for decoder := json.NewDecoder(messages); ; {
		var message struct {
			Stream string `json:"stream"`
			Error  string `json:"error"`
		}
		err := decoder.Decode(&message)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case message.Error != "":
			return fmt.Errorf("%s\n%s", message.Error, said)
		}
		said = (said + message.Stream)[max(0, len(said)+len(message.Stream)-maxSaid):]
	}
}

// maxSaid bounds what an error repeats of a build, in bytes.
const maxSaid = 4096

// buildContext is what a build gets.
type buildContext struct {
	dockerfile string
	files      []contextFile
}

// contextFile is a file of this machine.
type contextFile struct {
	name, path string
	mode       int64
}

// write writes the context as a tar archive that depends on the content of its files alone.
func (b buildContext) write(w io.Writer) error {
	archive := tar.NewWriter(w)
	header := &tar.Header{Name: "Dockerfile", Mode: 0o644, Size: int64(len(b.dockerfile)), ModTime: time.Unix(0, 0)}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	if _, err := io.WriteString(archive, b.dockerfile); err != nil {
		return err
	}
	for _, file := range b.files {
		info, err := os.Stat(file.path)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: file.name, Mode: file.mode, Size: info.Size(), ModTime: time.Unix(0, 0)}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if err := copyFile(archive, file.path); err != nil {
			return err
		}
	}
	return archive.Close()
}
