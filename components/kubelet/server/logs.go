package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/runtime"
)

// failure is an error with the HTTP status it is answered with.
type failure struct {
	code    int
	message string
}

func (f *failure) Error() string { return f.message }

func fail(w http.ResponseWriter, err error) {
	var f *failure
	switch {
	case errors.As(err, &f):
		http.Error(w, f.message, f.code)
	case errors.Is(err, runtime.ErrNotFound):
		http.Error(w, err.Error(), http.StatusNotFound)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// pod finds the pod of a request.
func (s *Server) pod(r *http.Request) (*v1.Pod, error) {
	pod := s.Pods.Find(r.PathValue("namespace"), r.PathValue("pod"))
	if pod == nil || (r.PathValue("uid") != "" && r.PathValue("uid") != string(pod.UID)) {
		return nil, &failure{http.StatusNotFound,
			fmt.Sprintf("pod %q not found", r.PathValue("namespace")+"/"+r.PathValue("pod"))}
	}
	return pod, nil
}

// containerStatus finds the container of a request in its pod's status.
func containerStatus(pod *v1.Pod, name string) *v1.ContainerStatus {
	for _, list := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses,
		pod.Status.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

func bareID(id string) string {
	_, bare, _ := strings.Cut(id, "://")
	return bare
}

// logID is the run of a container whose output is wanted.
func logID(pod *v1.Pod, name string, previous bool) (string, error) {
	cs := containerStatus(pod, name)
	if cs == nil {
		return "", &failure{http.StatusBadRequest,
			fmt.Sprintf("container %q in pod %q is not available", name, pod.Name)}
	}
	last := cs.LastTerminationState.Terminated
	switch {
	case previous:
		if last == nil || last.ContainerID == "" {
			return "", &failure{http.StatusBadRequest,
				fmt.Sprintf("previous terminated container %q in pod %q not found", name, pod.Name)}
		}
		return bareID(last.ContainerID), nil
	case cs.State.Running != nil:
		return bareID(cs.ContainerID), nil
	case cs.State.Terminated != nil && cs.State.Terminated.ContainerID != "":
		return bareID(cs.State.Terminated.ContainerID), nil
	case last != nil && last.ContainerID != "":
		return bareID(last.ContainerID), nil
	case cs.State.Waiting != nil:
		return "", &failure{http.StatusBadRequest, waitingMessage(name, pod.Name, cs.State.Waiting.Reason)}
	}
	return "", &failure{http.StatusBadRequest, fmt.Sprintf("container %q in pod %q is waiting to start - no logs yet",
		name, pod.Name)}
}

func waitingMessage(container, pod, reason string) string {
	switch reason {
	case "ErrImagePull", "ImagePullBackOff":
		return fmt.Sprintf("container %q in pod %q is waiting to start: trying and failing to pull image",
			container, pod)
	case "":
		return fmt.Sprintf("container %q in pod %q is waiting to start - no logs yet", container, pod)
	}
	return fmt.Sprintf("container %q in pod %q is waiting to start: %s", container, pod, reason)
}

// logQuery holds the parameters of a log request.
type logQuery struct {
	options  runtime.LogOptions
	previous bool
	limit    *int64
	stdout   bool
	stderr   bool
}

func (s *Server) logQuery(query url.Values) (logQuery, error) {
	q := logQuery{stdout: true, stderr: true}
	var err error
	flag := func(name string) bool {
		text := query.Get(name)
		if text == "" {
			return query.Has(name)
		}
		value, parseErr := strconv.ParseBool(text)
		if parseErr != nil {
			err = fmt.Errorf("%s=%q is no boolean", name, text)
		}
		return value
	}
	number := func(name string, least int64) *int64 {
		text := query.Get(name)
		if text == "" {
			return nil
		}
		value, parseErr := strconv.ParseInt(text, 10, 64)
		if parseErr != nil || value < least {
			err = fmt.Errorf("%s=%q is no number of at least %d", name, text, least)
		}
		return &value
	}
	q.options.Follow, q.options.Timestamps, q.previous = flag("follow"), flag("timestamps"), flag("previous")
	q.options.Tail, q.limit = number("tailLines", 0), number("limitBytes", 1)
	if seconds := number("sinceSeconds", 1); seconds != nil {
		q.options.Since = s.Clock.Now().Add(-time.Duration(*seconds) * time.Second)
	}
	if text := query.Get("sinceTime"); text != "" {
		if q.options.Since, err = time.Parse(time.RFC3339, text); err != nil {
			err = fmt.Errorf("sinceTime=%q: %w", text, err)
		}
	}
	switch stream := query.Get("stream"); stream {
	case "", v1.LogStreamAll:
	case v1.LogStreamStdout:
		q.stderr = false
	case v1.LogStreamStderr:
		q.stdout = false
	default:
		err = fmt.Errorf("stream=%q: use All, Stdout or Stderr", stream)
	}
	if err != nil {
		return q, &failure{http.StatusUnprocessableEntity, err.Error()}
	}
	return q, nil
}

func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	pod, err := s.pod(r)
	if err != nil {
		fail(w, err)
		return
	}
	q, err := s.logQuery(r.URL.Query())
	if err != nil {
		fail(w, err)
		return
	}
	id, err := logID(pod, r.PathValue("container"), q.previous)
	if err != nil {
		fail(w, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := &flushing{w: w, stop: cancel}
	if q.limit != nil {
		out.limited, out.left = true, *q.limit
	}
	var stdout, stderr io.Writer
	if q.stdout {
		stdout = out
	}
	if q.stderr {
		stderr = out
	}
	w.Header().Set("Content-Type", "text/plain")
	if err := s.Engine.Logs(ctx, id, q.options, stdout, stderr); err != nil && !out.written && ctx.Err() == nil {
		fail(w, err)
	}
}

// flushing sends what is written at once, up to a limit.
type flushing struct {
	w       http.ResponseWriter
	stop    context.CancelFunc
	limited bool
	left    int64
	written bool
}

var errLimit = errors.New("limit reached")

func (f *flushing) Write(p []byte) (int, error) {
	f.written = true
	all := len(p)
	if f.limited && int64(all) > f.left {
		p = p[:f.left]
	}
	n, err := f.w.Write(p)
	if flusher, ok := f.w.(http.Flusher); ok {
		flusher.Flush()
	}
	f.left -= int64(n)
	if err == nil && f.limited && f.left <= 0 {
		f.stop()
		return n, errLimit
	}
	return n, err
}
