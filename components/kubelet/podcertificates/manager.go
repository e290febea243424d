// Package podcertificates gets certificates for pods whose volumes project them
// (https://kubernetes.io/docs/concepts/storage/projected-volumes/#podcertificate, KEP-4317): it makes keys, asks
// signers by PodCertificateRequests, and asks again before a certificate expires. Nothing survives a restart: then all
// are requested again.
package podcertificates

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// pass is the time, and at most as much again, between two looks at all certificates.
const pass = time.Minute

// Config is what a Manager is made of.
type Config struct {
	Client   kubernetes.Interface
	Clock    clock.WithTicker
	Recorder record.EventRecorder
	NodeName string
	// Node returns the node as it is, nil while it is not known.
	Node func() *v1.Node
	// Changed is called with a pod that gets other certificates than before, or never will.
	Changed func(types.UID)
	// Jitter returns how much later than the signer says a certificate is refreshed; random, up to 5 minutes, if nil.
	Jitter func() time.Duration
}

// Manager holds the certificates of a node's pods. It is safe for concurrent use.
type Manager struct {
	Config
	queue      workqueue.TypedRateLimitingInterface[key]
	store      cache.Store // of the node's requests
	controller cache.Controller
	need       func() // begins to watch requests
	needed     chan struct{}

	mu   sync.Mutex
	pods map[types.UID]map[key]*projection
}

// key names one projection of a pod.
type key struct {
	pod    types.UID
	volume string
	source int
}

// projection is one that was asked for. Only the worker writes its issuance, under the manager's lock.
type projection struct {
	pod *v1.Pod
	issuance
}

// New makes a Manager that knows no pods. Run does the work.
func New(c Config) *Manager {
	if c.Jitter == nil {
		c.Jitter = func() time.Duration { return rand.N(maxJitter) }
	}
	m := &Manager{Config: c, needed: make(chan struct{}), pods: map[types.UID]map[key]*projection{}}
	m.need = sync.OnceFunc(func() { close(m.needed) })
	m.queue = workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.DefaultTypedControllerRateLimiter[key](),
		workqueue.TypedRateLimitingQueueConfig[key]{Clock: c.Clock})
	look := func(object any) {
		if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = unknown.Obj
		}
		if request, ok := object.(*certificatesv1beta1.PodCertificateRequest); ok {
			m.look(request.Spec.PodUID)
		}
	}
	selector := fields.OneTermEqualSelector("spec.nodeName", c.NodeName).String()
	all := c.Client.CertificatesV1beta1().PodCertificateRequests(metav1.NamespaceAll)
	m.store, m.controller = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				options.FieldSelector = selector
				return all.List(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				options.FieldSelector = selector
				return all.Watch(ctx, options)
			},
		}, c.Client),
		ObjectType: &certificatesv1beta1.PodCertificateRequest{},
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: look, UpdateFunc: func(_, now any) { look(now) },
			DeleteFunc: look},
	})
	return m
}

// Get returns the key and the certificates of a projection, in PEM. The first call asks for them; until they are there,
// and where the signer refuses, it is an error.
func (m *Manager) Get(pod *v1.Pod, volume string, source int) (keyPEM, chain []byte, err error) {
	m.need()
	k := key{pod.UID, volume, source}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[k.pod][k]
	if p == nil {
		if m.pods[k.pod] == nil {
			m.pods[k.pod] = map[key]*projection{}
		}
		p = &projection{pod: pod}
		m.pods[k.pod][k] = p
		m.queue.Add(k)
	}
	return p.bundle()
}

// Forget drops what there is for a pod.
func (m *Manager) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, uid)
}

// States counts projections by their signer and the state of their certificates.
func (m *Manager) States() map[State]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[State]int{}
	for _, projections := range m.pods {
		for k, p := range projections {
			if source := projectionOf(p.pod, k.volume, k.source); source != nil {
				out[State{source.SignerName, p.state(m.Clock.Now())}]++
			}
		}
	}
	return out
}

// State is a signer and the state of certificates, as upstream's metric kubelet_podcertificate_states has it.
type State struct{ Signer, State string }

// Run works until ctx ends, from the moment that a pod wants a certificate.
func (m *Manager) Run(ctx context.Context) {
	defer m.queue.ShutDown()
	select {
	case <-m.needed:
	case <-ctx.Done():
		return
	}
	var work sync.WaitGroup
	work.Go(func() { m.controller.RunWithContext(ctx) })
	work.Go(func() { m.passes(ctx) })
	work.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), m.controller.HasSynced) {
			for m.next(ctx) {
			}
		}
	})
	<-ctx.Done()
	m.queue.ShutDown()
	work.Wait()
}

// passes looks at all projections every now and then: that is how certificates are found that are to be refreshed.
func (m *Manager) passes(ctx context.Context) {
	for {
		timer := m.Clock.NewTimer(pass + rand.N(pass))
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return
		}
		m.mu.Lock()
		var uids []types.UID
		for uid := range m.pods {
			uids = append(uids, uid)
		}
		m.mu.Unlock()
		for _, uid := range uids {
			m.look(uid)
		}
	}
}

// look has the worker look at all projections of a pod.
func (m *Manager) look(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.pods[uid] {
		m.queue.Add(k)
	}
}

func (m *Manager) next(ctx context.Context) bool {
	k, shutdown := m.queue.Get()
	if shutdown {
		return false
	}
	defer m.queue.Done(k)
	if err := m.sync(ctx, k); err != nil {
		klog.FromContext(ctx).Error(err, "Certificate of a pod can't be had, will be retried", "uid", k.pod, "volume",
			k.volume, "source", k.source)
		m.queue.AddRateLimited(k)
	} else {
		m.queue.Forget(k)
	}
	return true
}

// sync brings one projection a step on. There is one worker, so that nothing else changes its issuance meanwhile.
func (m *Manager) sync(ctx context.Context, k key) error {
	m.mu.Lock()
	p := m.pods[k.pod][k]
	m.mu.Unlock()
	if p == nil {
		return nil // the pod is gone
	}
	if p.pending != nil {
		if err := m.await(p); err != nil {
			return err
		}
	}
	now := m.Clock.Now()
	m.update(p, func() (bool, []event) { return false, p.ages(now) })
	if !p.wants(now) {
		return nil
	}
	asked, err := m.request(ctx, p.pod, projectionOf(p.pod, k.volume, k.source))
	if err != nil {
		return err
	}
	m.update(p, func() (bool, []event) { p.pending = asked; return false, nil })
	return nil
}

// update changes a projection's issuance, and tells what came of it.
func (m *Manager) update(p *projection, change func() (changed bool, events []event)) {
	m.mu.Lock()
	changed, events := change()
	m.mu.Unlock()
	for _, e := range events {
		m.Recorder.Event(p.pod, v1.EventTypeWarning, e.reason, e.message)
	}
	if changed {
		m.Changed(p.pod.UID)
	}
}

// await looks what became of a request under way.
func (m *Manager) await(p *projection) error {
	name := p.pod.Namespace + "/" + p.pending.name
	object, exists, err := m.store.GetByKey(name)
	switch {
	case err != nil:
		return fmt.Errorf("while getting PodCertificateRequest %q: %w", name, err)
	case exists:
		request := object.(*certificatesv1beta1.PodCertificateRequest)
		m.update(p, func() (bool, []event) { return p.decide(request, m.Jitter()) })
		return nil
	case m.Clock.Now().After(p.pending.abandon):
		m.update(p, func() (bool, []event) { p.pending = nil; return false, nil })
		return fmt.Errorf("PodCertificateRequest %q appears to have been deleted", name)
	}
	return nil // it was not seen yet: the watch tells, or the next pass
}

// request makes a key and asks for its certificate.
func (m *Manager) request(ctx context.Context, pod *v1.Pod, p *v1.PodCertificateProjection) (*pending, error) {
	if p == nil {
		return nil, fmt.Errorf("pod %s/%s has no such projection", pod.Namespace, pod.Name)
	}
	account, err := m.Client.CoreV1().ServiceAccounts(pod.Namespace).Get(ctx, pod.Spec.ServiceAccountName,
		metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("while fetching service account: %w", err)
	}
	node := m.Node()
	if node == nil {
		return nil, fmt.Errorf("node %q is not known yet", m.NodeName)
	}
	keyPEM, stub, err := keyAndStub(p.KeyType)
	if err != nil {
		return nil, err
	}
	made, err := m.Client.CertificatesV1beta1().PodCertificateRequests(pod.Namespace).Create(ctx,
		&certificatesv1beta1.PodCertificateRequest{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: pod.Namespace, GenerateName: "req-",
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
			},
			Spec: certificatesv1beta1.PodCertificateRequestSpec{
				SignerName: p.SignerName, PodName: pod.Name, PodUID: pod.UID,
				ServiceAccountName: account.Name, ServiceAccountUID: account.UID,
				NodeName: types.NodeName(m.NodeName), NodeUID: node.UID,
				MaxExpirationSeconds: p.MaxExpirationSeconds, StubPKCS10Request: stub,
				UnverifiedUserAnnotations: p.UserAnnotations,
			},
		}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("while creating PodCertificateRequest: %w", err)
	}
	return &pending{name: made.Name, key: keyPEM, abandon: m.Clock.Now().Add(assumeDeleted + m.Jitter())}, nil
}
