package static

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/kubelet/status"
)

// Statuses takes the statuses of pods to the API server.
type Statuses interface {
	Set(pod *v1.Pod, status *v1.PodStatus)
	Delete(pod *v1.Pod)
	Forget(uid types.UID)
}

// Mirrors keeps the mirror pods: one in the API for each static pod that runs, with its status, and none else. Statuses
// of other pods are passed on as they are. It is safe for concurrent use.
type Mirrors struct {
	Client kubernetes.Interface
	// Statuses takes the statuses of mirror pods, and of pods that are not static.
	Statuses Statuses
	// Node returns the node as the API server has it; nil while it is not known.
	Node func() *v1.Node

	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu      sync.Mutex
	static  map[types.UID]*running
	mirrors map[types.NamespacedName]*v1.Pod // as the API server has them, as far as known
	known   bool                             // all manifests were read
}

// running is a static pod; status is nil until its worker reported one.
type running struct {
	pod    *v1.Pod
	status *v1.PodStatus
}

// NewMirrors makes mirrors that write nothing before Run.
func NewMirrors(client kubernetes.Interface, statuses Statuses, node func() *v1.Node) *Mirrors {
	return &Mirrors{
		Client: client, Statuses: statuses, Node: node,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](
				100*time.Millisecond, 10*time.Second)),
		static: map[types.UID]*running{}, mirrors: map[types.NamespacedName]*v1.Pod{},
	}
}

// know notes a static pod before it runs: its mirror pod, if there is one, stays.
func (m *Mirrors) know(pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.static[pod.UID]; r != nil {
		r.pod = pod
		return
	}
	m.static[pod.UID] = &running{pod: pod}
}

// ready tells that all static pods are known: mirror pods of others are left over.
func (m *Mirrors) ready() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known = true
	for name := range m.mirrors {
		m.queue.Add(name)
	}
}

// Set takes the status of a pod. pod is the newest version seen; both are not changed hereafter.
func (m *Mirrors) Set(pod *v1.Pod, status *v1.PodStatus) {
	if !Is(pod) {
		m.Statuses.Set(pod, status)
		return
	}
	m.mu.Lock()
	m.static[pod.UID] = &running{pod: pod, status: status}
	m.mu.Unlock()
	m.queue.Add(nameOf(pod))
}

// Delete removes the API object of a pod that ended.
func (m *Mirrors) Delete(pod *v1.Pod) { m.Statuses.Delete(pod) }

// Forget tells that nothing of a pod is left on the node.
func (m *Mirrors) Forget(uid types.UID) {
	m.mu.Lock()
	r := m.static[uid]
	delete(m.static, uid)
	m.mu.Unlock()
	if r != nil {
		m.queue.Add(nameOf(r.pod))
		return
	}
	m.Statuses.Forget(uid)
}

// Seen takes a mirror pod as the API server has it.
func (m *Mirrors) Seen(mirror *v1.Pod) {
	m.mu.Lock()
	m.mirrors[nameOf(mirror)] = mirror
	m.mu.Unlock()
	m.queue.Add(nameOf(mirror))
}

// Left tells that a mirror pod left the API.
func (m *Mirrors) Left(mirror *v1.Pod) {
	m.mu.Lock()
	name := nameOf(mirror)
	if now := m.mirrors[name]; now != nil && now.UID == mirror.UID {
		delete(m.mirrors, name)
	}
	m.mu.Unlock()
	m.Statuses.Forget(mirror.UID)
	m.queue.Add(name)
}

// callTimeout bounds what is asked of the API server about one mirror pod.
const callTimeout = 15 * time.Second

// Run writes until ctx ends.
func (m *Mirrors) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, m.queue.ShutDown)
	defer stop()
	for {
		name, shutdown := m.queue.Get()
		if shutdown {
			return
		}
		callCtx, cancel := context.WithTimeout(ctx, callTimeout)
		err := m.sync(callCtx, name)
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				klog.FromContext(ctx).V(2).Info("Mirror pod can't be written yet, will be retried",
					"pod", klog.KRef(name.Namespace, name.Name), "err", err)
			}
			m.queue.AddRateLimited(name)
		} else {
			m.queue.Forget(name)
		}
		m.queue.Done(name)
	}
}

// step is what is to be done about a mirror pod.
type step struct {
	remove, create, report bool
}

// plan decides about the mirror pod of a static pod. known tells that there is a static pod of the name; it is nil
// until it runs.
func plan(static, mirror *v1.Pod, known bool) step {
	switch {
	case static == nil:
		return step{remove: mirror != nil && !known}
	case mirror == nil:
		return step{create: true}
	case mirror.DeletionTimestamp != nil || !mirrors(mirror, static):
		return step{remove: true, create: true}
	}
	return step{report: true}
}

// mirrors tells that a pod of the API shows the static pod as it is.
func mirrors(mirror, static *v1.Pod) bool {
	hash, ok := mirror.Annotations[v1.MirrorPodAnnotationKey]
	return ok && hash == static.Annotations[hashAnnotation]
}

// sync makes the mirror pod of a name what it is to be.
func (m *Mirrors) sync(ctx context.Context, name types.NamespacedName) error {
	m.mu.Lock()
	mirror, known := m.mirrors[name], !m.known
	var now running
	for _, r := range m.static {
		if nameOf(r.pod) != name {
			continue
		}
		known = true
		if r.status != nil {
			now = *r
		}
	}
	m.mu.Unlock()
	todo := plan(now.pod, mirror, known)
	if todo.remove {
		if err := m.remove(ctx, mirror); err != nil {
			return err
		}
	}
	if todo.create {
		return m.create(ctx, now.pod)
	}
	if todo.report {
		m.Statuses.Set(mirror, merged(mirror, now.status))
	}
	return nil
}

// merged is a status with the conditions of the mirror pod that are not the kubelet's.
func merged(mirror *v1.Pod, now *v1.PodStatus) *v1.PodStatus {
	out := now.DeepCopy()
	for _, c := range mirror.Status.Conditions {
		if !status.Owns(c.Type) {
			out.Conditions = status.Replace(out.Conditions, c)
		}
	}
	return out
}

func (m *Mirrors) remove(ctx context.Context, mirror *v1.Pod) error {
	grace := int64(0)
	err := m.Client.CoreV1().Pods(mirror.Namespace).Delete(ctx, mirror.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &grace, Preconditions: metav1.NewUIDPreconditions(string(mirror.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // conflict: another pod of that name
		return fmt.Errorf("delete mirror pod: %w", err)
	}
	m.mu.Lock()
	if name := nameOf(mirror); m.mirrors[name] == mirror {
		delete(m.mirrors, name)
	}
	m.mu.Unlock()
	m.Statuses.Forget(mirror.UID)
	return nil
}

// errNodeUnknown keeps mirror pods from being made before the node that owns them.
var errNodeUnknown = errors.New("no need to create a mirror pod, since the node was not registered yet")

func (m *Mirrors) create(ctx context.Context, static *v1.Pod) error {
	node := m.Node()
	if node == nil {
		return errNodeUnknown
	}
	pods := m.Client.CoreV1().Pods(static.Namespace)
	mirror, err := pods.Create(ctx, mirrorOf(static, node), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		taken, getErr := pods.Get(ctx, static.Name, metav1.GetOptions{})
		if getErr != nil {
			return getErr
		}
		if !IsMirror(taken) {
			return err
		}
		mirror, err = taken, nil // the watch is late
	}
	if err != nil {
		return err
	}
	m.Seen(mirror)
	return nil
}

// mirrorOf is the pod that shows a static pod.
func mirrorOf(static *v1.Pod, node *v1.Node) *v1.Pod {
	mirror := static.DeepCopy()
	metav1.SetMetaDataAnnotation(&mirror.ObjectMeta, v1.MirrorPodAnnotationKey, static.Annotations[hashAnnotation])
	isController := true
	mirror.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: &isController,
	}}
	return mirror
}
