package delegated

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	requestx509 "k8s.io/apiserver/pkg/authentication/request/x509"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// published is the ConfigMap in kube-system in which the API server publishes its client CAs.
const published = "extension-apiserver-authentication"

// Its keys; the lists are JSON.
const (
	clientCA            = "client-ca-file"
	proxyCA             = "requestheader-client-ca-file"
	allowedNames        = "requestheader-allowed-names"
	usernameHeaders     = "requestheader-username-headers"
	uidHeaders          = "requestheader-uid-headers"
	groupHeaders        = "requestheader-group-headers"
	extraHeaderPrefixes = "requestheader-extra-headers-prefix"
)

// authorities of certificates, which may change.
type authorities struct {
	now atomic.Pointer[trusted]
}

type trusted struct {
	pem  []byte
	pool *x509.CertPool
}

func (a *authorities) set(pem []byte) error {
	certs, err := cert.ParseCertsPEM(pem)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	a.now.Store(&trusted{pem, pool})
	return nil
}

// verifyOptions implements x509.VerifyOptionFunc.
func (a *authorities) verifyOptions() (x509.VerifyOptions, bool) {
	options := requestx509.DefaultVerifyOptions()
	now := a.now.Load()
	if now == nil {
		return options, false
	}
	options.Roots = now.pool
	return options, true
}

// bundle is what is trusted, as PEM.
func (a *authorities) bundle() []byte {
	if now := a.now.Load(); now != nil {
		return now.pem
	}
	return nil
}

// proxies authenticate by request headers.
type proxies struct {
	authorities authorities
	lists       atomic.Pointer[map[string][]string]
}

func newProxies() *proxies {
	p := &proxies{}
	p.set(nil)
	return p
}

func (p *proxies) set(lists map[string][]string) { p.lists.Store(&lists) }

// list reads one of the lists, by its key, when it is asked.
func (p *proxies) list(key string) headerrequest.StringSliceProvider {
	return headerrequest.StringSliceProviderFunc(func() []string { return (*p.lists.Load())[key] })
}

func (r *RequestHeader) lists() map[string][]string {
	return map[string][]string{
		allowedNames: r.AllowedNames, usernameHeaders: r.UsernameHeaders, uidHeaders: r.UIDHeaders,
		groupHeaders: r.GroupHeaders, extraHeaderPrefixes: r.ExtraHeaderPrefixes,
	}
}

// lookup keeps authorities as they are published; those that are nil don't come from there.
type lookup struct {
	client  kubernetes.Interface
	clients *authorities
	proxies *proxies
	// found is closed when authorities were found published.
	found     chan struct{}
	closeOnce sync.Once
}

func newLookup(client kubernetes.Interface) *lookup {
	return &lookup{client: client, found: make(chan struct{})}
}

// authorityWait bounds how long a client with a certificate waits for authorities to be published.
const authorityWait = 5 * time.Second

// wait returns when authorities were found, ctx ends or authorityWait has passed. It returns whether they were found
// only now.
func (l *lookup) wait(ctx context.Context, clk clock.Clock) bool {
	select {
	case <-l.found:
		return false
	default:
	}
	timeout := clk.NewTimer(authorityWait)
	defer timeout.Stop()
	select {
	case <-l.found:
		return true
	case <-ctx.Done():
	case <-timeout.C():
	}
	return false
}

// once reads what is published now. Nothing published is no failure, for it may come yet.
func (l *lookup) once(ctx context.Context) error {
	found, err := l.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, published, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.take(found)
}

// take believes what can be used, and keeps what was before of what can't.
func (l *lookup) take(from *v1.ConfigMap) error {
	defer l.closeOnce.Do(func() { close(l.found) })
	var errs []error
	trust := func(a *authorities, key string) {
		if pem := from.Data[key]; pem != "" {
			if err := a.set([]byte(pem)); err != nil {
				errs = append(errs, fmt.Errorf("ConfigMap %s/%s, %s: %w", from.Namespace, from.Name, key, err))
			}
		}
	}
	if l.clients != nil {
		trust(l.clients, clientCA)
	}
	if l.proxies != nil {
		lists := map[string][]string{}
		for _, key := range []string{allowedNames, usernameHeaders, uidHeaders, groupHeaders, extraHeaderPrefixes} {
			var list []string
			if text := from.Data[key]; text != "" {
				if err := json.Unmarshal([]byte(text), &list); err != nil {
					return errors.Join(append(errs, fmt.Errorf("ConfigMap %s/%s, %s: %w", from.Namespace, from.Name,
						key, err))...)
				}
			}
			lists[key] = list
		}
		// before the authorities, so that those of a proxy are never trusted with lists that aren't theirs
		l.proxies.set(lists)
		trust(&l.proxies.authorities, proxyCA)
	}
	return errors.Join(errs...)
}

const resync = 12 * time.Hour

// run follows what is published until ctx ends.
func (l *lookup) run(ctx context.Context) {
	informer := coreinformers.NewFilteredConfigMapInformer(l.client, metav1.NamespaceSystem, resync, cache.Indexers{},
		func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, published).String()
		})
	take := func(obj any) {
		if err := l.take(obj.(*v1.ConfigMap)); err != nil {
			klog.FromContext(ctx).Error(err, "Keeping the authorities that were published before")
		}
	}
	// fails only once stopped
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: take,
		UpdateFunc: func(_, obj any) { take(obj) }})
	informer.RunWithContext(ctx)
}
