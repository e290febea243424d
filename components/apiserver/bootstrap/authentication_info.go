package bootstrap

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/authn"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
)

const (
	trustName = "extension-apiserver-authentication"
	// trustSlack is how long a certificate that has expired is still told of.
	trustSlack = 5 * time.Minute

	clientCAKey = "client-ca-file"
	proxyCAKey  = "requestheader-client-ca-file"

	proxyUserHeaders  = "requestheader-username-headers"
	proxyUIDHeaders   = "requestheader-uid-headers"
	proxyGroupHeaders = "requestheader-group-headers"
	proxyExtraPrefix  = "requestheader-extra-headers-prefix"
	proxyNames        = "requestheader-allowed-names"
)

// authenticationInfo is the configuration that API servers authenticate with: certificate authorities of two kinds, and
// lists by their key.
type authenticationInfo struct {
	clients, proxies []byte   // PEM
	keys             []string // of the lists
	lists            map[string][]string
}

// authenticationConfig is the object that tells extension servers how to authenticate those who call them.
type authenticationConfig struct {
	writer *objectWriter
	clock  clock.PassiveClock
	// clientCA and requestHeaderCA return the PEM bundles now in use, or nil.
	clientCA, requestHeaderCA func() []byte
	requestHeader             *authn.RequestHeader
	noUIDHeaders              bool

	settled settled
}

// settled is a state in which nothing was to tell.
type settled struct {
	version          string // of the object
	clients, proxies []byte
	until            time.Time // then a certificate is no longer told of, or the clock is looked at again
}

// still tells whether nothing has changed since s was settled, and not too long ago.
func (s settled) still(state settled, now time.Time) bool {
	return s.version != "" && s.version == state.version && now.Before(s.until) &&
		bytes.Equal(s.clients, state.clients) && bytes.Equal(s.proxies, state.proxies)
}

// settledFor is how long a state may be settled, for the clock may be set back.
const settledFor = time.Minute

// ensure publishes for extension servers the authorities that this server trusts, besides those
// that other API servers published (https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/).
func (c *authenticationConfig) ensure(ctx context.Context) error {
	configMaps := corev1.Resource("configmaps")
	told, err := objects.As[*corev1.ConfigMap](c.writer.objects.Get(ctx, configMaps, metav1.NamespaceSystem, trustName))
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err != nil {
		told = &corev1.ConfigMap{}
	}
	now := c.clock.Now()
	state := settled{version: told.ResourceVersion, clients: c.clientCA(), proxies: c.requestHeaderCA()}
	if c.settled.still(state, now) {
		return nil
	}
	data, err := c.toTell(told.Data)
	switch {
	case err != nil:
		return err
	case maps.Equal(told.Data, data):
		state.until = earliest(now.Add(settledFor), data[clientCAKey], data[proxyCAKey])
		c.settled = state
		return nil
	}
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: trustName},
		Data: data}
	var unread error
	err = c.writer.write(ctx, configMaps, configMap, func(obj api.Object) bool {
		current := obj.(*corev1.ConfigMap)
		data, unread = c.toTell(current.Data) // another server may have been faster
		if unread != nil || maps.Equal(current.Data, data) {
			return false
		}
		current.Data = data
		return true
	})
	// with what others published: servers that are still alive publish again
	if apierrors.HasStatusCause(err, metav1.CauseType(field.ErrorTypeTooLong)) {
		if err := c.writer.objects.Delete(ctx, configMaps, metav1.NamespaceSystem, trustName, told.UID); err != nil {
			return err
		}
	}
	if err == nil {
		err = unread
	}
	return err
}

// toTell is what was told with what this server has to tell.
func (c *authenticationConfig) toTell(told map[string]string) (map[string]string, error) {
	all, err := readAuthenticationInfo(told, c.proxyLists())
	if err != nil {
		return nil, err
	}
	own := authenticationInfo{clients: c.clientCA(), proxies: c.requestHeaderCA()}
	if len(own.proxies) > 0 {
		h := c.requestHeader
		own.lists = map[string][]string{
			proxyUserHeaders: h.UsernameHeaders, proxyUIDHeaders: h.UIDHeaders, proxyGroupHeaders: h.GroupHeaders,
			proxyExtraPrefix: h.ExtraHeaderPrefixes, proxyNames: h.AllowedNames,
		}
	}
	now := c.clock.Now()
	if all.clients, err = joinCertificates(now, all.clients, own.clients); err != nil {
		return nil, err
	}
	if all.proxies, err = joinCertificates(now, all.proxies, own.proxies); err != nil {
		return nil, err
	}
	for key, list := range own.lists {
		all.lists[key] = append(all.lists[key], list...)
	}
	return all.data(), nil
}

// proxyLists are the keys of what proxies are recognized by, and where they tell of users.
func (c *authenticationConfig) proxyLists() []string {
	keys := []string{proxyUserHeaders, proxyGroupHeaders, proxyExtraPrefix, proxyNames}
	if c.noUIDHeaders {
		return keys
	}
	return append(keys, proxyUIDHeaders)
}

func readAuthenticationInfo(data map[string]string, keys []string) (authenticationInfo, error) {
	t := authenticationInfo{clients: []byte(data[clientCAKey]), proxies: []byte(data[proxyCAKey]), keys: keys,
		lists: map[string][]string{}}
	for _, key := range keys {
		if text := data[key]; text != "" {
			var list []string
			if err := json.Unmarshal([]byte(text), &list); err != nil {
				return t, err
			}
			t.lists[key] = list
		}
	}
	return t, nil
}

// data is what is written: nothing of proxies where no certificate of theirs is known.
func (t *authenticationInfo) data() map[string]string {
	data := map[string]string{}
	if len(t.clients) > 0 {
		data[clientCAKey] = string(t.clients)
	}
	if len(t.proxies) == 0 {
		return data
	}
	data[proxyCAKey] = string(t.proxies)
	for _, key := range t.keys {
		if list := t.lists[key]; len(list) > 0 || key != proxyUIDHeaders {
			data[key] = jsonList(list)
		}
	}
	return data
}

// joinCertificates keeps each certificate once, and those that have expired not at all.
func joinCertificates(now time.Time, bundles ...[]byte) ([]byte, error) {
	var out []byte
	known := map[string]bool{}
	for _, bundle := range bundles {
		if len(bundle) == 0 {
			continue
		}
		certificates, err := cert.ParseCertsPEM(bundle)
		if err != nil {
			return nil, err
		}
		for _, c := range certificates {
			if known[string(c.Raw)] || !c.NotAfter.After(now.Add(-trustSlack)) {
				continue
			}
			known[string(c.Raw)] = true
			out = append(out, pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: c.Raw})...)
		}
	}
	return out, nil
}

// earliest is when the first certificate of these bundles is no longer told of, or limit if that comes before.
func earliest(limit time.Time, bundles ...string) time.Time {
	for _, bundle := range bundles {
		certificates, _ := cert.ParseCertsPEM([]byte(bundle)) // an empty bundle has none, others were read before
		for _, c := range certificates {
			if end := c.NotAfter.Add(trustSlack); end.Before(limit) {
				limit = end
			}
		}
	}
	return limit
}

// jsonList has each element once.
func jsonList(list []string) string {
	once := []string{}
	for _, s := range list {
		if !slices.Contains(once, s) {
			once = append(once, s)
		}
	}
	out, err := json.Marshal(once)
	if err != nil {
		return "[]" // strings always encode
	}
	return string(out)
}
