package cache

import "strings"

// keyLayout is how the keys of a resource are laid out in the store: <prefix>[<namespace>/]<name>.
type keyLayout struct {
	prefix     string // of all keys, with a slash
	namespaced bool
}

// key returns the key of an object; namespace is "" for kinds without.
func (k keyLayout) key(namespace, name string) string {
	if k.namespaced {
		return k.prefix + namespace + "/" + name
	}
	return k.prefix + name
}

// names takes a key apart.
func (k keyLayout) names(key string) (namespace, name string) {
	rest := key[len(k.prefix):]
	if !k.namespaced {
		return "", rest
	}
	namespace, name, _ = strings.Cut(rest, "/")
	return namespace, name
}

// scope is the prefix of the keys of a namespace, or of all.
func (k keyLayout) scope(namespace string) string {
	if namespace == "" || !k.namespaced {
		return k.prefix
	}
	return k.prefix + namespace + "/"
}
