package csr

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"

	authorization "k8s.io/api/authorization/v1"
	certificates "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certlisters "k8s.io/client-go/listers/certificates/v1"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/controllers/runner"
)

// right is a permission by which a kind of request is approved.
type right struct{ subresource, message string }

var (
	selfNode = right{"selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."}
	anyNode  = right{"nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."}
)

// rights returns the permissions of which one lets the requester have the certificate; none if the request is not
// for this approver.
func rights(csr *certificates.CertificateSigningRequest, r *x509.CertificateRequest) []right {
	if csr.Spec.SignerName != certificates.KubeAPIServerClientKubeletSignerName ||
		kubeletClient(r, csr.Spec.Usages) != nil {
		return nil
	}
	if csr.Spec.Username == r.Subject.CommonName {
		return []right{selfNode, anyNode}
	}
	return []right{anyNode}
}

// Approver approves the client certificates of kubelets that may have them.
type Approver struct {
	env  runner.Env
	csrs certlisters.CertificateSigningRequestLister
	loop *runner.Loop[string]
}

// NewApprover makes the controller; it starts working with Run.
func NewApprover(env runner.Env) (*Approver, error) {
	csrs := env.Informers.Certificates().V1().CertificateSigningRequests()
	a := &Approver{env: env, csrs: csrs.Lister()}
	a.loop = runner.NewLoop("certificate", env, a.reconcile)
	return a, a.loop.Watch(csrs.Informer(), runner.Handle(func(_, new *certificates.CertificateSigningRequest) {
		if new != nil {
			a.loop.Add(new.Name)
		}
	}))
}

// Run works until ctx ends.
func (a *Approver) Run(ctx context.Context) error { return a.loop.Run(ctx) }

func (a *Approver) reconcile(ctx context.Context, name string) error {
	csr, err := a.csrs.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || !open(csr) {
		return err
	}
	request, err := parse(csr.Spec.Request)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Certificate signing request can't be read", "csr", name, "err", err)
		return nil
	}
	asked := rights(csr, request)
	for _, right := range asked {
		allowed, err := a.review(ctx, csr, right)
		if err != nil {
			return err
		}
		if allowed {
			return a.approve(ctx, csr, right)
		}
	}
	if len(asked) > 0 { // the permission may still be given
		return fmt.Errorf("certificate signing request %s: user %q may not create certificatesigningrequests/%s", name,
			csr.Spec.Username, asked[len(asked)-1].subresource)
	}
	return nil
}

func (a *Approver) review(ctx context.Context, csr *certificates.CertificateSigningRequest, r right) (bool, error) {
	extra := map[string]authorization.ExtraValue{}
	for key, values := range csr.Spec.Extra {
		extra[key] = authorization.ExtraValue(slices.Clone(values))
	}
	review := &authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{
		User: csr.Spec.Username, UID: csr.Spec.UID, Groups: csr.Spec.Groups, Extra: extra,
		ResourceAttributes: &authorization.ResourceAttributes{
			Group: certificates.GroupName, Version: "*", Resource: "certificatesigningrequests",
			Subresource: r.subresource, Verb: "create",
		},
	}}
	answer, err := a.env.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

func (a *Approver) approve(ctx context.Context, csr *certificates.CertificateSigningRequest, r right) error {
	approved := csr.DeepCopy()
	now := metav1.NewTime(a.env.Clock.Now())
	approved.Status.Conditions = append(approved.Status.Conditions, certificates.CertificateSigningRequestCondition{
		Type: certificates.CertificateApproved, Status: v1.ConditionTrue, Reason: "AutoApproved", Message: r.message,
		LastUpdateTime: now, LastTransitionTime: now,
	})
	_, err := a.env.Client.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, approved.Name, approved,
		metav1.UpdateOptions{})
	return runner.IgnoreGone(err)
}
