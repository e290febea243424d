package status

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
	// Slots bounds, by its capacity, how many statuses are sent at once; nil: as many as Run says. Kubelets of one process
	// share it: where more is to be sent than the API server takes, the time that a write has would be over before it is
	// on its way, again and again.
	Slots chan struct{}

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
	pod     *v1.Pod // as the API server has it, as far as known; nil while there is nothing to send
	want    *v1.PodStatus
	sent    *v1.PodStatus // the last one that was written, nil before
	version string        // that its write led to
	delete  bool

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
	if e.sent != nil && older(pod.ResourceVersion, e.version) { // the answer to the last write is not taken in yet
		written := *pod
		written.ResourceVersion, written.Status = e.version, *e.sent
		pod = &written
	}
	if !e.sending && e.sent != nil && Same(e.sent, status) && Same(&pod.Status, status) {
		e.want, e.sent = nil, status // which the worker has, too
		return
	}
	if e.pod == nil || !older(pod.ResourceVersion, e.pod.ResourceVersion) {
		e.pod = pod
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

// older tells that one resource version of a pod came before another.
func older(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
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
	for w.sendNext() {
	}
}

// sendNext sends what is ready first once there is a slot. It tells whether there was something.
func (w *Writer) sendNext() bool {
	if w.Slots != nil {
		select {
		case w.Slots <- struct{}{}:
			defer func() { <-w.Slots }()
		case <-w.ctx.Done():
		}
	}
	uid, e := w.take()
	if e == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(w.ctx, sendTimeout) // an API server that hangs must not hold a sender
	err := w.send(ctx, uid)
	cancel()
	if err != nil && w.ctx.Err() == nil {
		klog.FromContext(w.ctx).V(2).Info("Write of pod status failed, will be retried", "podUID", uid, "err", err)
	}
	w.finish(uid, e, err)
	return true
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
		written, err := w.patch(ctx, pod, want)
		if err != nil {
			return err
		}
		again := w.sentOne(e, want, written)
		remove = remove && !again
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

// sentOne notes that a status was written, and that there is nothing more to send then, unless another one came
// meanwhile, which it tells. written is the API server's answer; nil if nothing had to be sent.
func (w *Writer) sentOne(e *entry, want *v1.PodStatus, written *v1.Pod) (again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.sent = want
	if written != nil {
		e.version = written.ResourceVersion
		if older(e.pod.ResourceVersion, e.version) { // else the watch was quicker
			e.pod = written
		}
	}
	if e.want != nil && e.want != want {
		return true
	}
	e.want = nil
	if !e.delete {
		e.pod = nil
	}
	return false
}

// patch sends the difference between the status that the API server has and the wanted one, and returns the pod as it
// is then; nil if there is no difference, or no such pod any more.
func (w *Writer) patch(ctx context.Context, pod *v1.Pod, want *v1.PodStatus) (*v1.Pod, error) {
	data, changed, err := difference(pod, want)
	if err != nil || !changed {
		return nil, err
	}
	written, err := w.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, data,
		metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil, nil // the pod is gone, or it is another one now: its UID is in the patch
	}
	if err != nil {
		return nil, err
	}
	if w.Written != nil {
		w.Written(written)
	}
	return written, nil
}

// difference is the patch that makes of a pod's status the wanted one, and whether it changes anything.
func difference(pod *v1.Pod, want *v1.PodStatus) ([]byte, bool, error) {
	is, shall := pod.Status, *want
	forgetEqual(&is, &shall)
	before, err := json.Marshal(v1.Pod{Status: is})
	if err != nil {
		return nil, false, err
	}
	after, err := json.Marshal(v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod.UID}, Status: shall})
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

// forgetEqual empties the fields that are the same in both: a patch is made by way of JSON and maps, in which all that
// has to be looked at is dear.
func forgetEqual(a, b *v1.PodStatus) {
	one, other := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range one.NumField() {
		if equality.Semantic.DeepEqual(one.Field(i).Interface(), other.Field(i).Interface()) {
			one.Field(i).SetZero()
			other.Field(i).SetZero()
		}
	}
}
