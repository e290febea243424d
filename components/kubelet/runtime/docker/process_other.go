//go:build !linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
)

func killProcess(int, string) error {
	return fmt.Errorf("kill a process of a container: %w: the kubelet must run on Linux, beside the engine",
		errors.ErrUnsupported)
}

func processEnv(int, string) ([]string, error) {
	return nil, fmt.Errorf("read the environment of a container: %w: the kubelet must run on Linux, beside the engine",
		errors.ErrUnsupported)
}

func dialInNamespace(context.Context, string, int32) (net.Conn, error) {
	return nil, fmt.Errorf("enter the pod's network: %w: the kubelet must run on Linux, beside the engine",
		errors.ErrUnsupported)
}
