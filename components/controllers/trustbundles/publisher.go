// Package trustbundles publishes the authority of API servers' certificates as a ClusterTrustBundle (KEP-3257).
package trustbundles

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	certlisters "k8s.io/client-go/listers/certificates/v1beta1"

	"quintet.dev/quintet/components/controllers/runner"
)

// signer is the name under which the authority is known.
const signer = "kubernetes.io/kube-apiserver-serving"

type bundle = certificatesv1beta1.ClusterTrustBundle

// Publisher keeps one bundle of the signer: that of the authority.
type Publisher struct {
	env     runner.Env
	wanted  *bundle
	bundles certlisters.ClusterTrustBundleLister
	loop    *runner.Loop[string]
}

// NewPublisher makes the controller; ca is PEM. It starts working with Run.
func NewPublisher(env runner.Env, ca []byte) (*Publisher, error) {
	bundles := env.Informers.Certificates().V1beta1().ClusterTrustBundles()
	p := &Publisher{env: env, wanted: bundleOf(ca), bundles: bundles.Lister()}
	p.loop = runner.NewLoop("kube_apiserver_serving_clustertrustbundle_publisher", env, p.reconcile)
	err := p.loop.Watch(bundles.Informer(), runner.Handle(func(old, new *bundle) {
		if now := runner.Last(old, new); now.Spec.SignerName == signer {
			p.loop.Add(signer)
		}
	}))
	p.loop.Add(signer)
	return p, err
}

// Run works until ctx ends.
func (p *Publisher) Run(ctx context.Context) error { return p.loop.Run(ctx) }

// bundleOf is the bundle of an authority; its name, which is upstream's, changes with it.
func bundleOf(ca []byte) *bundle {
	sum := sha256.Sum256(ca)
	return &bundle{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s:%x", strings.ReplaceAll(signer, "/", ":"), sum[:12])},
		Spec:       certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: string(ca)},
	}
}

// plan tells what is to be done: wanted is to be created, or repaired in the form that is returned, and other bundles
// of its signer go.
func plan(wanted *bundle, all []*bundle) (create bool, repair *bundle, remove []string) {
	create = true
	for _, b := range all {
		switch {
		case b.Spec.SignerName != signer:
		case b.Name != wanted.Name:
			remove = append(remove, b.Name)
		default:
			create = false
			if b.Spec.TrustBundle != wanted.Spec.TrustBundle {
				repair = b.DeepCopy()
				repair.Spec = wanted.Spec
			}
		}
	}
	return create, repair, remove
}

func (p *Publisher) reconcile(ctx context.Context, _ string) error {
	all, err := p.bundles.List(labels.Everything())
	if err != nil {
		return err
	}
	create, repair, remove := plan(p.wanted, all)
	client := p.env.Client.CertificatesV1beta1().ClusterTrustBundles()
	if create {
		if _, err := client.Create(ctx, p.wanted, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("publish ClusterTrustBundle %s: %w", p.wanted.Name, err)
		}
	}
	if repair != nil {
		if _, err := client.Update(ctx, repair, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("repair ClusterTrustBundle %s: %w", repair.Name, err)
		}
	}
	for _, name := range remove {
		if err := runner.IgnoreGone(client.Delete(ctx, name, metav1.DeleteOptions{})); err != nil {
			return fmt.Errorf("remove ClusterTrustBundle %s: %w", name, err)
		}
	}
	return nil
}
