package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

const (
	tasks       = "https://kubernetes.io/docs/tasks/"
	shellDocs   = tasks + "debug/debug-application/get-shell-running-container/"
	forwardDocs = tasks + "access-application-cluster/port-forward-access-application-cluster/"
)

func streamCases() []suite.Case {
	return since("0.3", []suite.Case{
		{ID: "node/exec-terminal", Run: execTerminal, Reference: shellDocs,
			Requirement: "A command with a terminal MUST have one of the client's size, echo its input, and give " +
				"its exit code."},
		{ID: "node/attach", Run: attach,
			Reference: "https://kubernetes.io/docs/tasks/debug/debug-application/debug-running-pod/",
			Requirement: "A client that attaches to a container MUST give it its input and get its output, and a " +
				"container with stdinOnce MUST see the end of that input."},
		{ID: "node/port-forward", Run: portForward,
			Reference: forwardDocs,
			Requirement: "A forwarded port MUST lead to what listens on the pod's own localhost, as often as it is " +
				"asked, and connections to a port without a listener MUST fail."},
		{ID: "node/logs-since", Run: logsSince, Reference: logDocs,
			Requirement: "sinceTime and sinceSeconds MUST leave out what was written before."},
	})
}

// sizes gives a terminal one size.
type sizes struct{ left []remotecommand.TerminalSize }

// Next implements remotecommand.TerminalSizeQueue.
func (s *sizes) Next() *remotecommand.TerminalSize {
	if len(s.left) == 0 {
		return nil
	}
	next := s.left[0]
	s.left = s.left[1:]
	return &next
}

// stream connects to a subresource of a pod's main container.
func stream(ctx context.Context, t *suite.T, pod, subresource string, parameters any,
	options remotecommand.StreamOptions) error {
	request := t.Client.CoreV1().RESTClient().Post().Namespace(t.Namespace).Resource("pods").Name(pod).
		SubResource(subresource)
	switch p := parameters.(type) {
	case *corev1.PodExecOptions:
		request = request.VersionedParams(p, scheme.ParameterCodec)
	case *corev1.PodAttachOptions:
		request = request.VersionedParams(p, scheme.ParameterCodec)
	}
	executor, err := remotecommand.NewWebSocketExecutor(t.Config, "GET", request.URL().String())
	t.Must(err, "prepare %s", subresource)
	return executor.StreamWithContext(ctx, options)
}

func execTerminal(ctx context.Context, t *suite.T) {
	t.CreatePod(ctx, server(t, "shell"))
	running(ctx, t, "shell")
	var out bytes.Buffer
	input, typed := io.Pipe()
	defer typed.Close()
	go func() { _, _ = typed.Write([]byte("typed\n")) }() // ends with the pipe
	err := stream(ctx, t, "shell", "exec",
		&corev1.PodExecOptions{Container: "main", Stdin: true, Stdout: true, TTY: true,
			Command: []string{"testimage", "terminal", "101x41", "then", "sleep", "500ms", "then", "exit", "3"}},
		remotecommand.StreamOptions{Stdin: input, Stdout: &out, Tty: true,
			TerminalSizeQueue: &sizes{[]remotecommand.TerminalSize{{Width: 101, Height: 41}}}})
	var code utilexec.CodeExitError
	t.Expect(errors.As(err, &code)).To(BeTrue(), "want an exit code, got %v with output %q", err, out.String())
	t.Expect(code.Code).To(Equal(3), out.String())
	t.Expect(out.String()).To(And(ContainSubstring("terminal 101x41\r\n"), ContainSubstring("typed\r\n")))

	out.Reset()
	err = stream(ctx, t, "shell", "exec", &corev1.PodExecOptions{Container: "main", Stdout: true,
		Command: []string{"testimage", "terminal", "101x41"}}, remotecommand.StreamOptions{Stdout: &out})
	t.Expect(errors.As(err, &code)).To(BeTrue(), "without a terminal: %v, %q", err, out.String())
}

func attach(ctx context.Context, t *suite.T) {
	p := t.Pod("reads", "cat", "then", "echo", "at the end")
	p.Spec.Containers[0].Stdin, p.Spec.Containers[0].StdinOnce = true, true
	t.CreatePod(ctx, p)
	running(ctx, t, "reads")
	var out bytes.Buffer
	t.Must(stream(ctx, t, "reads", "attach", &corev1.PodAttachOptions{Container: "main", Stdin: true, Stdout: true},
		remotecommand.StreamOptions{Stdin: strings.NewReader("carried over\n"), Stdout: &out}), "attach")
	t.Expect(out.String()).To(Equal("carried over\nat the end\n"))
	ended(ctx, t, "reads", corev1.PodSucceeded)
	t.Expect(log(ctx, t, "reads", &corev1.PodLogOptions{})).To(Equal("carried over\nat the end\n"))
}

func portForward(ctx context.Context, t *suite.T) {
	p := t.Pod("local", "serve", "--http=127.0.0.1:8080", "--text=from within")
	t.CreatePod(ctx, p)
	running(ctx, t, "local")
	target := t.Client.CoreV1().RESTClient().Post().Namespace(t.Namespace).Resource("pods").Name("local").
		SubResource("portforward").URL()
	dialer, err := portforward.NewSPDYOverWebsocketDialer(target, t.Config)
	t.Must(err, "prepare to forward ports")
	ready, result := make(chan struct{}), make(chan error, 1)
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:8080", "0:9"}, ctx.Done(),
		ready, io.Discard, io.Discard)
	t.Must(err, "prepare to forward ports")
	go func() { result <- forwarder.ForwardPorts() }()
	defer forwarder.Close()
	select {
	case <-ready:
	case err := <-result:
		t.Must(fmt.Errorf("it ended: %w", err), "forward ports")
	}
	ports, err := forwarder.GetPorts()
	t.Must(err, "read the forwarded ports")
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(port uint16) (string, error) {
		answer, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return string(text), err
	}
	for range 2 {
		text, err := get(ports[0].Local)
		t.Must(err, "read through the forwarded port")
		t.Expect(text).To(ContainSubstring("from within"))
	}
	_, err = get(ports[1].Local)
	t.Expect(err).To(HaveOccurred(), "nothing listens on port 9")
}

func logsSince(ctx context.Context, t *suite.T) {
	t.CreatePod(ctx, t.Pod("slow", "print", "1", "--text=early", "then", "sleep", "3s", "then",
		"print", "1", "--text=late"))
	ended(ctx, t, "slow", corev1.PodSucceeded)
	lines := strings.Split(strings.TrimSpace(log(ctx, t, "slow", &corev1.PodLogOptions{Timestamps: true})), "\n")
	t.Expect(lines).To(HaveLen(2))
	stamp, _, _ := strings.Cut(lines[1], " ")
	late, err := time.Parse(time.RFC3339Nano, stamp)
	t.Must(err, "read the timestamp")
	since := metav1.NewTime(late.Add(-time.Second))
	t.Expect(log(ctx, t, "slow", &corev1.PodLogOptions{SinceTime: &since})).To(Equal("late 1\n"))
	t.Expect(log(ctx, t, "slow", &corev1.PodLogOptions{SinceSeconds: ptr.To[int64](3600)})).To(
		Equal("early 1\nlate 1\n"))
	suite.WaitFor(ctx, t, "nothing of the last second", func(ctx context.Context) (string, error) {
		raw, err := t.Client.CoreV1().Pods(t.Namespace).GetLogs("slow",
			&corev1.PodLogOptions{SinceSeconds: ptr.To[int64](1)}).DoRaw(ctx)
		return string(raw), err
	}, BeEmpty())
}
