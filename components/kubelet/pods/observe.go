package pods

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// observeRetry is how long to wait after the engine gave no answer.
const observeRetry = time.Second

// observe begins to ask the engine. An operation that ends meanwhile makes the answer void: decided by what was before
// it, a container would be started or stopped twice.
func (w *worker) observe(ctx context.Context) {
	s := &w.state
	pod, known, began := s.pod, maps.Clone(s.messages), s.opsDone
	w.begin(func(func(result)) result {
		pod, messages, err := w.inspect(ctx, pod, known)
		return observation{pod: pod, messages: messages, began: began, err: err}
	})
}

// observation is the pod as the engine has it.
type observation struct {
	pod      runtime.Pod
	messages map[string]string // termination messages that were not known, by ID
	began    int               // opsDone when the engine was asked
	err      error
}

func (o observation) apply(ctx context.Context, w *worker) {
	s := &w.state
	s.observing = false
	if ctx.Err() != nil {
		return // a message may be about the end of ctx
	}
	if o.err != nil {
		klog.FromContext(ctx).Error(o.err, "Pod can't be observed, will be retried")
		s.wakeAt = w.Clock.Now().Add(observeRetry)
		return
	}
	maps.Copy(s.messages, o.messages)
	if o.began != s.opsDone {
		s.observe = true
		return
	}
	s.observed, s.observedAt = o.pod, o.began
	s.observations++
	if w.Logs != nil {
		w.Logs.Follow(ctx, s.pod, &s.observed)
	}
	w.sync(ctx)
}

// differs tells that a list of all containers shows the pod otherwise than it was observed last.
func (s *state) differs(listed *runtime.Pod) bool {
	return !slices.EqualFunc(listed.Sandboxes, s.observed.Sandboxes, sameSandbox) ||
		!slices.EqualFunc(listed.Containers, s.observed.Containers, sameContainer)
}

func sameSandbox(a, b runtime.Sandbox) bool {
	return a.ID == b.ID && a.Attempt == b.Attempt && a.State == b.State && a.Created.Equal(b.Created) &&
		slices.Equal(a.IPs, b.IPs) && slices.Equal(a.Ports, b.Ports)
}

func sameContainer(a, b runtime.Container) bool {
	same := a.Created.Equal(b.Created) && a.Started.Equal(b.Started) && a.Finished.Equal(b.Finished)
	b.Created, b.Started, b.Finished = a.Created, a.Started, a.Finished
	return same && a == b
}

// inspect reads the pod from the engine, and the termination messages of containers that are not known yet.
func (o *operations) inspect(
	ctx context.Context, pod *v1.Pod, known map[string]string,
) (runtime.Pod, map[string]string, error) {
	observed, err := o.Engine.Pod(ctx, o.uid)
	if err != nil {
		return observed, nil, err
	}
	messages := map[string]string{}
	for i := range observed.Containers {
		run := &observed.Containers[i]
		if _, read := known[run.ID]; !read && run.State == runtime.Exited && run.StartErr == "" {
			messages[run.ID] = o.terminationMessage(ctx, pod, run)
		}
	}
	return observed, messages, nil
}

// Bounds of a termination message: of a file, and of the tail of a log.
const (
	maxMessage      = 4096
	maxLogMessage   = 2048
	logMessageLines = 80
	logTimeout      = 5 * time.Second
)

func (o *operations) terminationMessage(ctx context.Context, pod *v1.Pod, run *runtime.Container) string {
	message := ""
	if run.MessageFile != "" {
		message = head(run.MessageFile, maxMessage)
	}
	c := containerOf(pod, run.Name)
	if message == "" && run.ExitCode != 0 && c != nil &&
		c.TerminationMessagePolicy == v1.TerminationMessageFallbackToLogsOnError {
		return o.logTail(ctx, run.ID)
	}
	return message
}

// head reads the first bytes of a file, however much a container wrote into it; nothing if it can't be read.
func head(path string, limit int64) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, limit))
	if err != nil {
		return ""
	}
	return string(data)
}

func (o *operations) logTail(ctx context.Context, id string) string {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	lines := int64(logMessageLines)
	var out strings.Builder
	if err := o.Engine.Logs(ctx, id, runtime.LogOptions{Tail: &lines}, &out, &out); err != nil {
		return fmt.Sprintf("Error on reading termination message from logs: %v", err)
	}
	text := out.String()
	return text[max(0, len(text)-maxLogMessage):]
}
