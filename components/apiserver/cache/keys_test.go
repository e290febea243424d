package cache

import "testing"

// TestKeyLayout: a key is taken apart into what it was made of, and lies in the scope of its namespace alone.
func TestKeyLayout(t *testing.T) {
	pods := keyLayout{prefix: "/registry/pods/", namespaced: true}
	nodes := keyLayout{prefix: "/registry/minions/"}
	for _, c := range []struct {
		keys            keyLayout
		namespace, name string
		key, scope      string
	}{
		{pods, "a", "x", "/registry/pods/a/x", "/registry/pods/a/"},
		{pods, "ab", "x", "/registry/pods/ab/x", "/registry/pods/ab/"},
		{nodes, "", "x", "/registry/minions/x", "/registry/minions/"},
		{nodes, "", "a:b", "/registry/minions/a:b", "/registry/minions/"},
	} {
		if key := c.keys.key(c.namespace, c.name); key != c.key {
			t.Errorf("key of %s/%s: %s, want %s", c.namespace, c.name, key, c.key)
		}
		if namespace, name := c.keys.names(c.key); namespace != c.namespace || name != c.name {
			t.Errorf("names of %s: %s/%s", c.key, namespace, name)
		}
		if scope := c.keys.scope(c.namespace); scope != c.scope {
			t.Errorf("scope of %q: %s, want %s", c.namespace, scope, c.scope)
		}
		if scope := c.keys.scope(""); scope != c.keys.prefix {
			t.Errorf("scope of all: %s", scope)
		}
	}
	if scope := nodes.scope("a"); scope != nodes.prefix {
		t.Errorf("scope of a kind without namespaces: %s", scope)
	}
}
