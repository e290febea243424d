package node

import (
	"bufio"
	"context"
	"errors"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

func logs(ctx context.Context, t *suite.T) {
	t.CreatePod(ctx, t.Pod("talks", "print", "5", "--text=word"))
	ended(ctx, t, "talks", corev1.PodSucceeded)
	t.Expect(log(ctx, t, "talks", &corev1.PodLogOptions{})).To(Equal("word 1\nword 2\nword 3\nword 4\nword 5\n"))
	t.CreatePod(ctx, t.Pod("complains", "print", "2", "--text=problem", "--stderr"))
	ended(ctx, t, "complains", corev1.PodSucceeded)
	t.Expect(log(ctx, t, "complains", &corev1.PodLogOptions{})).To(Equal("problem 1\nproblem 2\n"),
		"both streams are the log")
	t.Expect(log(ctx, t, "talks",
		&corev1.PodLogOptions{TailLines: ptr.To[int64](3)})).To(And(ContainSubstring("word 5\n"),
		Not(ContainSubstring("word 2\n"))))
	t.Expect(log(ctx, t, "talks", &corev1.PodLogOptions{LimitBytes: ptr.To[int64](4)})).To(Equal("word"))
	stamped := strings.Split(log(ctx, t, "talks", &corev1.PodLogOptions{Timestamps: true}), "\n")[0]
	t.Expect(stamped).To(MatchRegexp(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z word 1$`))

	t.CreatePod(ctx, t.Pod("live", "print", "4", "--interval=300ms"))
	suite.WaitFor(ctx, t, "the pod started", t.GetPod("live"), Not(phase(corev1.PodPending)))
	stream, err := t.Client.CoreV1().Pods(t.Namespace).GetLogs("live", &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	t.Must(err, "follow the log")
	defer stream.Close()
	var lines []string
	for scanner := bufio.NewScanner(stream); scanner.Scan(); {
		lines = append(lines, scanner.Text())
	}
	t.Expect(lines).To(Equal([]string{"line 1", "line 2", "line 3", "line 4"}),
		"a followed log ends with its container")

	p := t.Pod("twice", "fail", "1", "/shared/runs")
	p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	shared(p, "/shared")
	t.CreatePod(ctx, p)
	ended(ctx, t, "twice", corev1.PodSucceeded)
	t.Expect(log(ctx, t, "twice", &corev1.PodLogOptions{Previous: true})).To(Equal("run 1\n"))
	t.Expect(log(ctx, t, "twice", &corev1.PodLogOptions{})).To(Equal("run 2\n"))
}

func exec(ctx context.Context, t *suite.T) {
	t.CreatePod(ctx, server(t, "shell"))
	running(ctx, t, "shell")
	out, _, err := execute(ctx, t, "shell", "", "testimage", "echo", "hello", "there")
	t.Must(err, "exec")
	t.Expect(out).To(Equal("hello there\n"))

	out, _, err = execute(ctx, t, "shell", "carried over", "testimage", "cat")
	t.Must(err, "exec with input")
	t.Expect(out).To(Equal("carried over"))

	_, stderr, err := execute(ctx, t, "shell", "", "testimage", "print", "1", "--stderr", "then", "exit", "5")
	var code utilexec.CodeExitError
	t.Expect(errors.As(err, &code)).To(BeTrue(), "want an exit code, got %v", err)
	t.Expect(code.Code).To(Equal(5))
	t.Expect(stderr).To(Equal("line 1\n"))
}
