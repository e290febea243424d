package controllers

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/metadata"

	"quintet.dev/quintet/components/controllers/deployment"
	"quintet.dev/quintet/components/controllers/namespace"
	"quintet.dev/quintet/components/controllers/nodeipam"
	"quintet.dev/quintet/components/controllers/replicaset"
	"quintet.dev/quintet/components/controllers/rootca"
	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/serviceaccount"
)

// entry is one controller: its names are upstream's.
type entry struct {
	name    string // as --controllers has it
	old     string // as --controllers had it before 1.28; still understood
	account string // the service account it speaks as, which the bootstrap RBAC roles are bound to
	source  string // the component its events name
	// workers is how many keys it reconciles at once.
	workers func(*Config) int
	// make returns nil, nil if the configuration leaves the controller nothing to do.
	make func(h *host, env runner.Env) (runner.Controller, error)
}

func one(*Config) int { return 1 }

// list is all controllers.
func list() []entry {
	return []entry{
		{"serviceaccount-controller", "serviceaccount", "service-account-controller", "serviceaccount-controller", one, plain(serviceaccount.New)},
		{"root-ca-certificate-publisher-controller", "root-ca-cert-publisher", "root-ca-cert-publisher", "root-ca-cert-publisher", one, makeRootCA},
		{"namespace-controller", "namespace", "namespace-controller", "namespace-controller",
			func(c *Config) int { return c.ConcurrentNamespaceSyncs }, makeNamespace},
		{"deployment-controller", "deployment", "deployment-controller", "deployment-controller",
			func(c *Config) int { return c.ConcurrentDeploymentSyncs }, plain(deployment.New)},
		{"replicaset-controller", "replicaset", "replicaset-controller", "replicaset-controller",
			func(c *Config) int { return c.ConcurrentReplicaSetSyncs }, plain(replicaset.New)},
		{"node-ipam-controller", "nodeipam", "node-controller", "cidrAllocator", one, makeNodeIPAM},
	}
}

// plain is a controller that needs nothing but its environment.
func plain[C runner.Controller](make func(runner.Env) (C, error)) func(*host, runner.Env) (runner.Controller, error) {
	return func(_ *host, env runner.Env) (runner.Controller, error) { return make(env) }
}

func makeRootCA(h *host, env runner.Env) (runner.Controller, error) {
	ca, err := read("root-ca-file", h.config.RootCAFile)
	if err != nil {
		return nil, err
	}
	if ca == nil {
		if ca = h.clients.root.CAData; ca == nil {
			if ca, err = read("root-ca-file", h.clients.root.CAFile); err != nil || ca == nil {
				return nil, err
			}
		}
	}
	return rootca.New(env, ca)
}

func makeNamespace(h *host, env runner.Env) (runner.Controller, error) {
	objects, err := metadata.NewForConfig(h.clients.config("namespace-controller"))
	if err != nil {
		return nil, err
	}
	return namespace.New(env, env.Client.Discovery(), objects)
}

func makeNodeIPAM(h *host, env runner.Env) (runner.Controller, error) {
	if !h.config.AllocateNodeCIDRs {
		return nil, nil
	}
	o, err := h.config.nodeCIDRs()
	if err != nil {
		return nil, err
	}
	return nodeipam.New(env, o)
}

func names() string {
	var all []string
	for _, e := range list() {
		all = append(all, e.name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// enabled returns the controllers that c.Controllers asks for; the first mention of a name counts.
func (c *Config) enabled() ([]entry, error) {
	all := list()
	chosen := map[string]bool{}
	star := false
	for _, wanted := range c.Controllers {
		if wanted == "*" {
			star = true
			continue
		}
		plainName, off := strings.CutPrefix(wanted, "-")
		at := slices.IndexFunc(all, func(e entry) bool { return e.name == plainName || e.old == plainName })
		if plainName == "" || at < 0 {
			return nil, fmt.Errorf("--controllers: %q is not the name of a controller; there are %s", plainName, names())
		}
		if _, mentioned := chosen[all[at].name]; !mentioned {
			chosen[all[at].name] = !off
		}
	}
	var enabled []entry
	for _, e := range all {
		if on, mentioned := chosen[e.name]; on || (star && !mentioned) {
			enabled = append(enabled, e)
		}
	}
	return enabled, nil
}
