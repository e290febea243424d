package bootstrap

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/kinds"
)

// ensureAuthenticationConfig tells extension servers whom this server trusts
// (https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/).
func (b *Bootstrap) ensureAuthenticationConfig(ctx context.Context) error {
	data := map[string]string{}
	if ca := b.cfg.ClientCA(); len(ca) > 0 {
		data["client-ca-file"] = string(ca)
	}
	if ca := b.cfg.RequestHeaderCA(); len(ca) > 0 {
		h := &b.cfg.RequestHeader
		data["requestheader-client-ca-file"] = string(ca)
		data["requestheader-username-headers"] = jsonList(h.UsernameHeaders)
		data["requestheader-uid-headers"] = jsonList(h.UIDHeaders)
		data["requestheader-group-headers"] = jsonList(h.GroupHeaders)
		data["requestheader-extra-headers-prefix"] = jsonList(h.ExtraHeaderPrefixes)
		data["requestheader-allowed-names"] = jsonList(h.AllowedNames)
	}
	if len(data) == 0 {
		return nil
	}
	configMap := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "extension-apiserver-authentication"},
		Data:       data,
	}
	return b.write(ctx, corev1.Resource("configmaps"), configMap, func(obj kinds.Object) bool {
		current := obj.(*corev1.ConfigMap)
		if maps.Equal(current.Data, data) {
			return false
		}
		current.Data = data
		return true
	})
}

func jsonList(list []string) string {
	if list == nil {
		list = []string{}
	}
	out, err := json.Marshal(list)
	if err != nil {
		return "[]" // strings always encode
	}
	return string(out)
}

// ensureTokenTracking notes since when uses of tokens in Secrets are recorded (KEP-2799).
func (b *Bootstrap) ensureTokenTracking(ctx context.Context) error {
	return b.createMissing(ctx, corev1.Resource("configmaps"), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-apiserver-legacy-service-account-token-tracking"},
		Data:       map[string]string{"since": b.cfg.Clock.Now().UTC().Format(time.DateOnly)},
	})
}
