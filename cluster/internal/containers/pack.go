package containers

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/moby/moby/client"
)

// programDir is where the images of components have their programs.
const programDir = "/usr/local/bin"

// PackedProgram is a program file that takes the place of a program of an image.
type PackedProgram struct {
	Base    string // the image
	Program string // its name in the image
	File    string // on this machine, for the engine's platform
	Ref     string // of the image to make
}

// Pack makes an image that has another program in the place of its base's.
func Pack(ctx context.Context, p PackedProgram) error {
	docker, err := connect(ctx)
	if err != nil {
		return err
	}
	defer docker.Close()
	build, err := p.context()
	if err != nil {
		return err
	}
	result, err := docker.ImageBuild(ctx, build, client.ImageBuildOptions{
		Tags: []string{p.Ref}, Remove: true, ForceRemove: true, Labels: map[string]string{"io.quintet.image": "true"},
	})
	if err != nil {
		return fmt.Errorf("build image %s: %w", p.Ref, err)
	}
	defer result.Body.Close()
	if err := buildError(result.Body); err != nil {
		return fmt.Errorf("build image %s: %w", p.Ref, err)
	}
	return nil
}

// context is what the engine builds from: a Dockerfile and the program.
func (p PackedProgram) context() (io.Reader, error) {
	program, err := os.ReadFile(p.File)
	if err != nil {
		return nil, err
	}
	dockerfile := fmt.Sprintf("FROM %s\nCOPY program %s\n", p.Base, path.Join(programDir, p.Program))
	var b bytes.Buffer
	out := tar.NewWriter(&b)
	for _, file := range []struct {
		name    string
		content []byte
	}{{"Dockerfile", []byte(dockerfile)}, {"program", program}} {
		header := &tar.Header{Name: file.name, Mode: 0o755, Size: int64(len(file.content))}
		if err := out.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := out.Write(file.content); err != nil {
			return nil, err
		}
	}
	return &b, out.Close()
}

// buildError reads the engine's messages to their end and returns the error among them.
func buildError(messages io.Reader) error {
	decoder := json.NewDecoder(messages)
	for {
		var message struct {
			Error string `json:"error"`
		}
		switch err := decoder.Decode(&message); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case message.Error != "":
			return errors.New(message.Error)
		}
	}
}

// Unpack removes an image that Pack made. Containers that run from it keep its content.
func Unpack(ctx context.Context, ref string) error {
	docker, err := connect(ctx)
	if err != nil {
		return err
	}
	defer docker.Close()
	if _, err := docker.ImageRemove(ctx, ref, client.ImageRemoveOptions{Force: true}); err != nil {
		return fmt.Errorf("remove image %s: %w", ref, err)
	}
	return nil
}
