package admission

import (
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/admission/namespacelifecycle"
	"quintet.dev/quintet/components/apiserver/admission/nodetaint"
	"quintet.dev/quintet/components/apiserver/admission/priority"
	"quintet.dev/quintet/components/apiserver/admission/serviceaccount"
	"quintet.dev/quintet/components/apiserver/admission/tolerationseconds"
)

// plugin is one entry of the list.
type plugin struct {
	name string
	off  bool // unless enabled
	new  func(cfg *Config) admission.Interface
}

// plugins lists all plug-ins in the order in which they are called.
var plugins = []plugin{
	{name: namespacelifecycle.Name, new: func(c *Config) admission.Interface { return namespacelifecycle.New(c.Objects) }},
	{name: serviceaccount.Name, new: func(c *Config) admission.Interface { return serviceaccount.New(c.Objects, c.Clock) }},
	{name: nodetaint.Name, new: func(*Config) admission.Interface { return nodetaint.New() }},
	{name: priority.Name, new: func(c *Config) admission.Interface { return priority.New(c.Objects) }},
	{name: tolerationseconds.Name, new: newTolerationSeconds},
}

func newTolerationSeconds(c *Config) admission.Interface {
	seconds := func(v int64) int64 {
		if v == 0 {
			return tolerationseconds.DefaultSeconds
		}
		return v
	}
	return tolerationseconds.New(seconds(c.NotReadySeconds), seconds(c.UnreachableSeconds))
}
