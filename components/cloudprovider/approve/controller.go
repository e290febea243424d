package approve

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	typedcertificates "k8s.io/client-go/kubernetes/typed/certificates/v1"
	certificatelisters "k8s.io/client-go/listers/certificates/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// How soon a request is looked at again that can't be approved yet: the node may be about to register its addresses.
const (
	retryFirst = 100 * time.Millisecond
	retryMost  = 30 * time.Second
)

// Config of a controller.
type Config struct {
	Client  typedcertificates.CertificateSigningRequestInterface
	Factory informers.SharedInformerFactory // started after New
	Clock   clock.WithTicker
}

// Controller approves. It is one of one cluster.
type Controller struct {
	config Config
	csrs   certificatelisters.CertificateSigningRequestLister
	nodes  corelisters.NodeLister
	synced []cache.InformerSynced
	queue  workqueue.TypedRateLimitingInterface[string]
}

// New makes a controller, which works with Run.
func New(c Config) (*Controller, error) {
	csrs, nodes := c.Factory.Certificates().V1().CertificateSigningRequests(), c.Factory.Core().V1().Nodes()
	made := &Controller{
		config: c, csrs: csrs.Lister(), nodes: nodes.Lister(),
		synced: []cache.InformerSynced{csrs.Informer().HasSynced, nodes.Informer().HasSynced},
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryMost),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "kubelet_serving", Clock: c.Clock}),
	}
	add := func(object any) {
		if csr, ok := object.(*certificatesv1.CertificateSigningRequest); ok && open(csr) {
			made.queue.Add(csr.Name)
		}
	}
	_, err := csrs.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: add, UpdateFunc: func(_, object any) { add(object) },
	})
	return made, err
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, c.queue.ShutDown)()
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return ctx.Err()
	}
	for {
		name, over := c.queue.Get()
		if over {
			return ctx.Err()
		}
		if err := c.reconcile(ctx, name); err != nil {
			klog.FromContext(ctx).V(1).Info("Kubelet serving certificate is not approved; retrying", "csr", name, "err",
				err)
			c.queue.AddRateLimited(name)
		} else {
			c.queue.Forget(name)
		}
		c.queue.Done(name)
	}
}

func (c *Controller) reconcile(ctx context.Context, name string) error {
	csr, err := c.csrs.Get(name)
	if apierrors.IsNotFound(err) || err == nil && !open(csr) {
		return nil
	}
	if err != nil {
		return err
	}
	of, err := nodeName(csr)
	if err != nil {
		klog.FromContext(ctx).Info("Request for a kubelet serving certificate is left to others", "csr", name,
			"err", err)
		return nil // and will never be a node's
	}
	node, err := c.nodes.Get(of)
	if err != nil {
		return err
	}
	all, err := c.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	if err := check(csr, node, all); err != nil {
		return fmt.Errorf("certificate signing request %s: %w", name, err)
	}
	approved := csr.DeepCopy()
	now := metav1.NewTime(c.config.Clock.Now())
	approved.Status.Conditions = append(approved.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: v1.ConditionTrue, Reason: "NodeAddressesMatch",
		Message: "Its names and addresses are those of the node.", LastUpdateTime: now, LastTransitionTime: now,
	})
	_, err = c.config.Client.UpdateApproval(ctx, name, approved, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
