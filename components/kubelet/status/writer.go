package status

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Writer sends statuses to the API server, the newest of each pod only, and deletes the API objects of pods that
// are done. It retries until it succeeds or the pod is gone. While there is nothing to send it has no goroutine but
// Run's. It is safe for concurrent use.
type Writer struct {
	client kubernetes.Interface
	clock  clock.WithDelayedExecution
	// Written, if set, is called with every pod the API server returned.
	Written func(*v1.Pod)

	mu      sync.Mutex
	pending map[types.UID]*entry
	ready   []types.UID     // to be sent, in the order in which they were handed over
	ctx     context.Context // of Run; nil before
	most    int             // senders at once
	senders int
	wait    sync.WaitGroup
}

const (
	sendTimeout = 15 * time.Second
	firstRetry  = 100 * time.Millisecond
	lastRetry   = 10 * time.Second
)

type entry struct {
	pod    *v1.Pod // as the API server has it, as far as known
	want   *v1.PodStatus
	sent   *v1.PodStatus
	delete bool

	queued, sending bool
	retry           time.Duration // after which the next failure is retried
}

// NewWriter makes a writer that retries by clock; it sends nothing before Run.
func NewWriter(client kubernetes.Interface, clock clock.WithDelayedExecution) *Writer {
	return &Writer{client: client, clock: clock, pending: map[types.UID]*entry{}}
}

// Run sends the given number of statuses at once, at most, until ctx ends.
func (w *Writer) Run(ctx context.Context, most int) {
	w.mu.Lock()
	w.ctx, w.most = ctx, most
	w.employ()
	w.mu.Unlock()
	<-ctx.Done()
	w.mu.Lock()
	w.most = 0 // no sender begins any more
	w.mu.Unlock()
	w.wait.Wait()
}

// enqueue has a pod sent, after what is on its way of it; it is called with the lock held.
func (w *Writer) enqueue(uid types.UID) {
	e := w.pending[uid]
	if e == nil || e.queued {
		return
	}
	e.queued = true
	if !e.sending {
		w.ready = append(w.ready, uid)
		w.employ()
	}
}

// employ begins senders for what is ready; it is called with the lock held.
func (w *Writer) employ() {
	if w.ctx == nil || w.ctx.Err() != nil {
		return
	}
	for w.senders < min(w.most, len(w.ready)) {
		w.senders++
		w.wait.Go(w.sendAll)
	}
}

// Set hands over the status of a pod. pod is the newest version seen; both are not changed hereafter.
func (w *Writer) Set(pod *v1.Pod, status *v1.PodStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.pending[pod.UID]
	if e == nil {
		e = &entry{}
		w.pending[pod.UID] = e
	}
	if e.pod == nil || !older(pod, e.pod) { // else the answer to the last write is not taken in yet
		e.pod = pod
	}
	if e.sent != nil && Same(e.sent, status) && Same(&e.pod.Status, status) {
		e.want = nil
		return
	}
	e.want = status
	w.enqueue(pod.UID)
}

// Same tells that two statuses are one to the API. Encodings are compared, which is some ten times cheaper than to
// compare values by reflection: they leave out what the API does, such as empty lists and fractions of a second.
func Same(a, b *v1.PodStatus) bool {
	if a.Size() != b.Size() {
		return false
	}
	one, errA := a.Marshal()
	other, errB := b.Marshal()
	return errA == nil && errB == nil && bytes.Equal(one, other)
}

// older tells that one version of a pod came before another.
func older(pod, than *v1.Pod) bool {
	order, err := resourceversion.CompareResourceVersion(pod.ResourceVersion, than.ResourceVersion)
	return err == nil && order < 0
}

// Delete removes the API object of a pod that is being deleted, after its last status was sent.
func (w *Writer) Delete(pod *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.pending[pod.UID]
	if e == nil {
		e = &entry{}
		w.pending[pod.UID] = e
	}
	e.pod, e.delete = pod, true
	w.enqueue(pod.UID)
}

// Forget drops what is known of a pod that left the API.
func (w *Writer) Forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pending, uid)
}

// sendAll sends until nothing is ready.
func (w *Writer) sendAll() {
	for {
		uid, e := w.take()
		if e == nil {
			return
		}
		ctx, cancel := context.WithTimeout(w.ctx, sendTimeout) // an API server that hangs must not hold a sender
		err := w.send(ctx, uid)
		cancel()
		if err != nil && w.ctx.Err() == nil {
			klog.FromContext(w.ctx).V(2).Info("Write of pod status failed, will be retried", "podUID", uid, "err", err)
		}
		w.finish(uid, e, err)
	}
}

// take returns the next pod to send; nil ends the sender.
func (w *Writer) take() (types.UID, *entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.ready) > 0 && w.ctx.Err() == nil {
		uid := w.ready[0]
		w.ready = w.ready[1:]
		if e := w.pending[uid]; e != nil && e.queued && !e.sending {
			e.queued, e.sending = false, true
			return uid, e
		}
	}
	w.senders--
	return "", nil
}

// finish notes what came of a send.
func (w *Writer) finish(uid types.UID, e *entry, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.sending = false
	if w.pending[uid] != e {
		return // it was forgotten
	}
	if err == nil {
		e.retry = 0
	} else {
		e.retry = min(max(2*e.retry, firstRetry), lastRetry)
		w.clock.AfterFunc(e.retry, func() { go w.again(uid) }) // a clock may hold a lock meanwhile
	}
	if e.queued {
		w.ready = append(w.ready, uid)
		w.employ()
	}
}

func (w *Writer) again(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.enqueue(uid)
}

func (w *Writer) send(ctx context.Context, uid types.UID) error {
	w.mu.Lock()
	e := w.pending[uid]
	if e == nil {
		w.mu.Unlock()
		return nil
	}
	pod, want, remove := e.pod, e.want, e.delete
	w.mu.Unlock()

	if want != nil {
		if err := w.patch(ctx, pod, want); err != nil {
			return err
		}
		w.mu.Lock()
		e.sent = want
		again := e.want != want
		if !again {
			e.want = nil
		}
		remove = e.delete && !again
		w.mu.Unlock()
		if again {
			w.again(uid)
		}
	}
	if !remove {
		return nil
	}
	grace := int64(0)
	err := w.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &grace, Preconditions: metav1.NewUIDPreconditions(string(uid)),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // conflict: another pod of that name
		return err
	}
	w.Forget(uid)
	return nil
}

// patch sends the difference between the status that the API server has and the wanted one.
func (w *Writer) patch(ctx context.Context, pod *v1.Pod, want *v1.PodStatus) error {
	data, changed, err := difference(pod, want)
	if err != nil || !changed {
		return err
	}
	written, err := w.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, data,
		metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the pod is gone, or it is another one now: its UID is in the patch
	}
	if err != nil {
		return err
	}
	w.mu.Lock()
	if e := w.pending[pod.UID]; e != nil && e.pod == pod { // else a newer version came in meanwhile
		e.pod = written
	}
	w.mu.Unlock()
	if w.Written != nil {
		w.Written(written)
	}
	return nil
}

func difference(pod *v1.Pod, want *v1.PodStatus) ([]byte, bool, error) {
	before, err := json.Marshal(v1.Pod{Status: pod.Status})
	if err != nil {
		return nil, false, err
	}
	after, err := json.Marshal(v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod.UID}, Status: *want})
	if err != nil {
		return nil, false, err
	}
	data, err := strategicpatch.CreateTwoWayMergePatch(before, after, v1.Pod{})
	if err != nil {
		return nil, false, fmt.Errorf("difference of statuses: %w", err)
	}
	unchanged := fmt.Sprintf(`{"metadata":{"uid":%q}}`, pod.UID)
	return data, string(data) != unchanged, nil
}
