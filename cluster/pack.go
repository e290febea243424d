package cluster

import (
	"context"
	"fmt"
	"os"

	"quintet.dev/quintet/cluster/internal/containers"
)

// PackProgram makes the image ref on the Docker engine: that of a component, with the program file in the place of the
// component's own. It is for WithImage; the file must run in that image, most of which have nothing else in them. A
// node's program is its kubelet. RemoveProgram removes the image.
func PackProgram(ctx context.Context, component Component, file, ref string) error {
	if err := known(component); err != nil {
		return err
	}
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return fmt.Errorf("program of %s: %w", component, err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("program of %s: %s is no file", component, file)
	}
	program := string(component)
	if component == Node {
		program = "kubelet"
	}
	return containers.Pack(ctx, containers.PackedProgram{
		Base: newConfig("").image(component), Program: program, File: file, Ref: ref,
	})
}

// RemoveProgram removes an image that PackProgram made.
func RemoveProgram(ctx context.Context, ref string) error { return containers.Unpack(ctx, ref) }
