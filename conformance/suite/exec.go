package suite

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// Exec runs a command in the container "main" of a pod; an empty stdin is none. A command that ends with another code
// than 0 is an error.
func (t *T) Exec(ctx context.Context, pod, stdin string, command ...string) (stdout, stderr string, err error) {
	return t.exec(ctx, t.Namespace, pod, stdin, command...)
}

func (c *Cluster) exec(
	ctx context.Context, namespace, pod, stdin string, command ...string,
) (stdout, stderr string, err error) {
	request := c.Client.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: "main", Command: command, Stdin: stdin != "", Stdout: true, Stderr: true,
		}, scheme.ParameterCodec)
	websocket, err := remotecommand.NewWebSocketExecutor(c.Config, "GET", request.URL().String())
	if err != nil {
		return "", "", fmt.Errorf("prepare exec: %w", err)
	}
	var out, errs bytes.Buffer
	options := remotecommand.StreamOptions{Stdout: &out, Stderr: &errs}
	if stdin != "" {
		options.Stdin = strings.NewReader(stdin)
	}
	err = websocket.StreamWithContext(ctx, options)
	return out.String(), errs.String(), err
}
