// Package trustbundles holds the ClusterTrustBundles of the cluster for the volumes that project them
// (https://kubernetes.io/docs/concepts/storage/projected-volumes/#clustertrustbundle). They are watched from the first
// volume on that asks for one: few clusters serve them.
package trustbundles

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// maxSelector bounds the text of a label selector, in bytes.
const maxSelector = 100 * 1024

var errNotSynced = errors.New("ClusterTrustBundle informer has not yet synced")

// Bundles gives certificates of bundles, by name or signer. It is safe for concurrent use.
type Bundles struct {
	store      cache.Store
	controller cache.Controller
	need       func() // begins to watch
	needed     chan struct{}
}

// New makes bundles that know nothing yet; changed is called when a bundle does, from the goroutine of Run.
func New(client kubernetes.Interface, changed func()) *Bundles {
	b := &Bundles{needed: make(chan struct{})}
	b.need = sync.OnceFunc(func() { close(b.needed) })
	all := client.CertificatesV1beta1().ClusterTrustBundles()
	b.store, b.controller = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return all.List(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return all.Watch(ctx, options)
			},
		}, client),
		ObjectType: &certificatesv1beta1.ClusterTrustBundle{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { changed() },
		},
	})
	return b
}

// Run watches bundles, once one is needed, until ctx ends.
func (b *Bundles) Run(ctx context.Context) {
	select {
	case <-b.needed:
		b.controller.RunWithContext(ctx)
	case <-ctx.Done():
	}
}

// ByName returns the certificates of one bundle, in PEM. Where there is none, optional has it return nothing.
func (b *Bundles) ByName(name string, optional bool) ([]byte, error) {
	if b.need(); !b.controller.HasSynced() {
		return nil, errNotSynced
	}
	object, exists, err := b.store.GetByKey(name)
	switch {
	case err != nil:
	case exists:
		return merge([]*certificatesv1beta1.ClusterTrustBundle{object.(*certificatesv1beta1.ClusterTrustBundle)}), nil
	case optional:
		return nil, nil
	default:
		err = apierrors.NewNotFound(certificatesv1beta1.Resource("clustertrustbundle"), name)
	}
	return nil, fmt.Errorf("while getting ClusterTrustBundle: %w", err)
}

// BySigner returns the certificates of all bundles of a signer that the selector matches, each once, in PEM. No
// selector matches nothing. Where there is no bundle, optional has it return nothing.
func (b *Bundles) BySigner(signer string, by *metav1.LabelSelector, optional bool) ([]byte, error) {
	if b.need(); !b.controller.HasSynced() {
		return nil, errNotSynced
	}
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		return nil, fmt.Errorf("while parsing label selector: %w", err)
	}
	if n := len(selector.String()); n > maxSelector {
		return nil, fmt.Errorf("label selector length (%d) is larger than %d", n, maxSelector)
	}
	var found []*certificatesv1beta1.ClusterTrustBundle
	for _, object := range b.store.List() {
		bundle := object.(*certificatesv1beta1.ClusterTrustBundle)
		if bundle.Spec.SignerName == signer && selector.Matches(labels.Set(bundle.Labels)) {
			found = append(found, bundle)
		}
	}
	if len(found) == 0 && !optional {
		return nil, errors.New("combination of signerName and labelSelector matched zero ClusterTrustBundles")
	}
	return merge(found), nil
}

// merge returns the certificates of bundles, each once, in the order of their bytes: it depends neither on that of the
// bundles nor on the node. Text between them, and headers, are left out.
func merge(bundles []*certificatesv1beta1.ClusterTrustBundle) []byte {
	all := map[string]bool{}
	for _, b := range bundles {
		block, rest := pem.Decode([]byte(b.Spec.TrustBundle))
		for ; block != nil; block, rest = pem.Decode(rest) {
			all[string(block.Bytes)] = true
		}
	}
	var out []byte
	for _, der := range slices.Sorted(maps.Keys(all)) {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)})...)
	}
	return out
}
