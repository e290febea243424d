package apiserver

import (
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/storage/encryption"
	"quintet.dev/quintet/internal/health"
)

// makeEncryption puts encryption between the server and its store, if that is wanted.
func (s *Server) makeEncryption() (err error) {
	if s.config.Encryption == (encryption.Config{}) {
		return nil
	}
	config := s.config.Encryption
	config.Identity, config.KMSv1 = s.id(), s.gates.On(gates.KMSv1)
	if s.keys, err = encryption.Load(config); err != nil {
		return err
	}
	for _, p := range s.places {
		store := encryption.NewStore(p.store, s.keys.Transformers(), s.resourceOf())
		if p.store = store; config.Reload {
			p.replaceable = store.Encrypted
		}
	}
	return nil
}

// resourceOf tells of which resource the object at a key is; of none, for what the server keeps for itself.
func (s *Server) resourceOf() func(key string) (schema.GroupResource, bool) {
	known := sync.OnceValue(func() map[string]schema.GroupResource { // the table comes after the store
		known := map[string]schema.GroupResource{}
		for _, r := range s.table {
			known[r.Kind.Prefix] = schema.GroupResource{Group: r.Kind.Hub.Group, Resource: r.Kind.Resource}
		}
		return known
	})
	prefix := strings.TrimSuffix(s.config.EtcdPrefix, "/") + "/"
	return func(key string) (schema.GroupResource, bool) {
		first, rest, _ := strings.Cut(strings.TrimPrefix(key, prefix), "/")
		if resource, ok := known()[first]; ok {
			return resource, true
		}
		second, _, _ := strings.Cut(rest, "/")
		if resource, ok := known()[first+"/"+second]; ok {
			return resource, true
		}
		// Custom resources lie below their group, which always has a dot.
		return schema.GroupResource{Group: first, Resource: second}, strings.Contains(first, ".")
	}
}

// keyChecks are the checks of key management services: to start anew mends none of them, so that /livez is without.
func (s *Server) keyChecks() []health.Check {
	var out []health.Check
	for _, c := range s.keys.Checks() {
		out = append(out, health.Check{Name: c.Name, Probe: c.Probe})
	}
	return out
}
