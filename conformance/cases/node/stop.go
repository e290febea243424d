package node

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/conformance/suite"
)

func gone(t *suite.T, name string) func(ctx context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		_, err := t.GetPod(name)(ctx)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	}
}

// follow reads a log to its end while the pod ends; the result is closed to everything after.
func follow(ctx context.Context, t *suite.T, name string) <-chan string {
	stream, err := t.Client.CoreV1().Pods(t.Namespace).GetLogs(name, &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	t.Must(err, "follow the log")
	result := make(chan string, 1)
	go func() {
		defer stream.Close()
		var b strings.Builder
		buffer := make([]byte, 4096)
		for {
			n, err := stream.Read(buffer)
			b.Write(buffer[:n])
			if err != nil {
				result <- b.String()
				return
			}
		}
	}()
	return result
}

func waitLog(ctx context.Context, t *suite.T, pod, text string) {
	read := func(ctx context.Context) (string, error) {
		raw, err := t.Client.CoreV1().Pods(t.Namespace).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(ctx)
		return string(raw), err
	}
	suite.WaitFor(ctx, t, "the log of "+pod, read, ContainSubstring(text))
}

func remove(ctx context.Context, t *suite.T, name string) {
	t.Must(t.Client.CoreV1().Pods(t.Namespace).Delete(ctx, name, metav1.DeleteOptions{}), "delete %s", name)
}

func gracefulStop(ctx context.Context, t *suite.T) {
	p := t.Pod("polite", "trap", "--delay=2s")
	grace(p, 30)
	t.CreatePod(ctx, p)
	running(ctx, t, "polite")
	waitLog(ctx, t, "polite", "waiting")
	said := follow(ctx, t, "polite")
	begun := time.Now()
	remove(ctx, t, "polite")
	read, err := t.GetPod("polite")(ctx)
	t.Must(err, "get the pod during its termination")
	t.Expect(read.DeletionTimestamp).NotTo(BeNil())
	t.Expect(*read.DeletionGracePeriodSeconds).To(BeEquivalentTo(30))
	suite.WaitFor(ctx, t, "the pod gone", gone(t, "polite"), BeTrue())
	t.Expect(time.Since(begun)).To(BeNumerically(">=", 1500*time.Millisecond), "the container takes two seconds to end")
	t.Expect(time.Since(begun)).To(BeNumerically("<", 25*time.Second),
		"the grace period is not waited for when the container has ended")
	t.Expect(<-said).To(Equal("waiting\ngot terminated\ndone\n"))
}

func forcedStop(ctx context.Context, t *suite.T) {
	p := t.Pod("deaf", "trap", "--ignore")
	grace(p, 2)
	t.CreatePod(ctx, p)
	running(ctx, t, "deaf")
	waitLog(ctx, t, "deaf", "waiting")
	begun := time.Now()
	remove(ctx, t, "deaf")
	suite.WaitFor(ctx, t, "the pod gone", gone(t, "deaf"), BeTrue())
	t.Expect(time.Since(begun)).To(BeNumerically(">=", 1500*time.Millisecond), "the grace period is two seconds")
}

func preStop(ctx context.Context, t *suite.T) {
	p := t.Pod("hooked", "trap", "--file=/shared/term", "then", "cat", "/shared/start", "/shared/stop")
	p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{
		PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"testimage", "write",
			"/shared/start", "started\n"}}},
		PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"testimage", "write",
			"/shared/stop", "stopping\n"}}},
	}
	grace(p, 30)
	shared(p, "/shared")
	t.CreatePod(ctx, p)
	running(ctx, t, "hooked")
	waitLog(ctx, t, "hooked", "waiting")
	said := follow(ctx, t, "hooked")
	remove(ctx, t, "hooked")
	suite.WaitFor(ctx, t, "the pod gone", gone(t, "hooked"), BeTrue())
	t.Expect(<-said).To(Equal("waiting\ngot terminated\ndone\nstarted\nstopping\n"))
}

func terminationMessage(ctx context.Context, t *suite.T) {
	t.CreatePod(ctx, t.Pod("speaks", "message", "last words"))
	t.Expect(container(ended(ctx, t, "speaks", corev1.PodSucceeded),
		"main").State.Terminated.Message).To(Equal("last words"))

	elsewhere := t.Pod("elsewhere", "message", "other words", "--file=/tmp/words")
	elsewhere.Spec.Containers[0].TerminationMessagePath = "/tmp/words"
	t.CreatePod(ctx, elsewhere)
	t.Expect(container(ended(ctx, t, "elsewhere", corev1.PodSucceeded),
		"main").State.Terminated.Message).To(Equal("other words"))

	fallback := t.Pod("fallback", "print", "2", "then", "exit", "1")
	fallback.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	t.CreatePod(ctx, fallback)
	t.Expect(container(ended(ctx, t, "fallback", corev1.PodFailed),
		"main").State.Terminated.Message).To(ContainSubstring("line 2"))
}
