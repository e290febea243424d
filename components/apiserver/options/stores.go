package options

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// EtcdOverride is an etcd of its own for some resources.
type EtcdOverride struct {
	Servers   []string
	Resources []schema.GroupResource
}

var errOverride = errors.New("--etcd-servers-overrides invalid, must be of format: " +
	"group/resource#servers, where servers are URLs, semicolon separated")

// EtcdOverrides reads EtcdServersOverrides: one for each set of servers, in the order in which these come first.
func (c *Config) EtcdOverrides() ([]EtcdOverride, error) {
	var overrides []EtcdOverride
	for _, text := range c.EtcdServersOverrides {
		parts := strings.Split(text, "#")
		if len(parts) != 2 {
			return nil, errOverride
		}
		names, servers := strings.Split(parts[0], "/"), strings.Split(parts[1], ";")
		if len(names) != 2 || slices.Contains(servers, "") {
			return nil, errOverride
		}
		resource := schema.GroupResource{Group: names[0], Resource: names[1]}
		same := slices.IndexFunc(overrides, func(o EtcdOverride) bool {
			return slices.Equal(slices.Sorted(slices.Values(o.Servers)), slices.Sorted(slices.Values(servers)))
		})
		if same < 0 {
			same = len(overrides)
			overrides = append(overrides, EtcdOverride{Servers: servers})
		}
		overrides[same].Resources = append(overrides[same].Resources, resource)
	}
	if len(overrides) > 0 && (c.Storage != StorageEtcd || c.Store != nil) {
		return nil, errors.New("--etcd-servers-overrides needs --storage-backend=etcd3")
	}
	return overrides, nil
}

// CacheDisabled reports whether reads of a resource are never older than the store.
func (c *Config) CacheDisabled(resource schema.GroupResource) bool {
	disabled := false
	for _, size := range c.CacheSizes() {
		name, number, _ := strings.Cut(size, "#")
		if n, err := strconv.Atoi(number); err == nil && schema.ParseGroupResource(name) == resource {
			disabled = n == 0 // the last one counts
		}
	}
	return disabled || c.NoWatchCache
}

// CacheSizes are those that upstream has by default, before those that are given.
func (c *Config) CacheSizes() []string {
	return append([]string{"events#0", "events.events.k8s.io#0"}, c.WatchCacheSizes...)
}
