package suite

import (
	"bytes"
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// Exec runs a command in the container "main" of a pod; an empty stdin is none. A command that ends with another code
// than 0 is an error.
func (t *T) Exec(ctx context.Context, pod, stdin string, command ...string) (stdout, stderr string, err error) {
	request := t.Client.CoreV1().RESTClient().Post().Namespace(t.Namespace).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: "main", Command: command, Stdin: stdin != "", Stdout: true, Stderr: true,
		}, scheme.ParameterCodec)
	websocket, err := remotecommand.NewWebSocketExecutor(t.Config, "GET", request.URL().String())
	t.Must(err, "prepare exec")
	var out, errs bytes.Buffer
	options := remotecommand.StreamOptions{Stdout: &out, Stderr: &errs}
	if stdin != "" {
		options.Stdin = strings.NewReader(stdin)
	}
	err = websocket.StreamWithContext(ctx, options)
	return out.String(), errs.String(), err
}
