package apiserver

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/storage/encryption"
	"quintet.dev/quintet/internal/health"
)

// loadKeys reads by which keys values are encrypted; nil if they are not.
func loadKeys(b *base) (*encryption.Keys, error) {
	if b.config.Encryption == (encryption.Config{}) {
		return nil, nil
	}
	config := b.config.Encryption
	config.Identity, config.KMSv1 = b.id, b.gates.On(gates.KMSv1)
	return encryption.Load(config)
}

// resourcesByKey tells of which resource the object at a key is; of none, for what the server keeps for itself.
func resourcesByKey(prefix string, rows []*api.Kind) func(key string) (schema.GroupResource, bool) {
	known := make(map[string]schema.GroupResource, len(rows))
	for _, row := range rows {
		known[row.Prefix] = schema.GroupResource{Group: row.Hub.Group, Resource: row.Resource}
	}
	prefix = strings.TrimSuffix(prefix, "/") + "/"
	return func(key string) (schema.GroupResource, bool) {
		first, rest, _ := strings.Cut(strings.TrimPrefix(key, prefix), "/")
		if resource, ok := known[first]; ok {
			return resource, true
		}
		second, _, _ := strings.Cut(rest, "/")
		if resource, ok := known[first+"/"+second]; ok {
			return resource, true
		}
		// Custom resources lie below their group, which always has a dot.
		return schema.GroupResource{Group: first, Resource: second}, strings.Contains(first, ".")
	}
}

// keyChecks are the checks of key management services: a restart would fix none of them, so /livez leaves them out.
func keyChecks(keys *encryption.Keys) []health.Check {
	var out []health.Check
	for _, c := range keys.Checks() {
		out = append(out, health.Check{Name: c.Name, Probe: c.Probe})
	}
	return out
}
