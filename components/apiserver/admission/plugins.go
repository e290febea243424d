package admission

import (
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/admission/certificates"
	"quintet.dev/quintet/components/apiserver/admission/ingressclass"
	"quintet.dev/quintet/components/apiserver/admission/inuseprotection"
	"quintet.dev/quintet/components/apiserver/admission/limitranger"
	"quintet.dev/quintet/components/apiserver/admission/namespacelifecycle"
	"quintet.dev/quintet/components/apiserver/admission/noderestriction"
	"quintet.dev/quintet/components/apiserver/admission/nodetaint"
	"quintet.dev/quintet/components/apiserver/admission/priority"
	"quintet.dev/quintet/components/apiserver/admission/runtimeclass"
	"quintet.dev/quintet/components/apiserver/admission/serviceaccount"
	"quintet.dev/quintet/components/apiserver/admission/storageclass"
	"quintet.dev/quintet/components/apiserver/admission/tolerationseconds"
	"quintet.dev/quintet/components/apiserver/admission/topologylabels"
	"quintet.dev/quintet/components/apiserver/admission/volumeresize"
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
	{name: limitranger.Name, new: func(c *Config) admission.Interface { return limitranger.New(c.Objects) }},
	{name: serviceaccount.Name, new: func(c *Config) admission.Interface { return serviceaccount.New(c.Objects, c.Clock) }},
	{name: noderestriction.Name, off: true, new: func(c *Config) admission.Interface { return noderestriction.New(c.Objects, c.Authorizer) }},
	{name: nodetaint.Name, new: func(*Config) admission.Interface { return nodetaint.New() }},
	{name: priority.Name, new: func(c *Config) admission.Interface { return priority.New(c.Objects) }},
	{name: tolerationseconds.Name, new: newTolerationSeconds},
	{name: storageclass.Name, new: func(c *Config) admission.Interface { return storageclass.New(c.Objects) }},
	{name: inuseprotection.Name, new: func(*Config) admission.Interface { return inuseprotection.New() }},
	{name: volumeresize.Name, new: func(c *Config) admission.Interface { return volumeresize.New(c.Objects) }},
	{name: runtimeclass.Name, new: func(c *Config) admission.Interface { return runtimeclass.New(c.Objects) }},
	{name: certificates.ApprovalName, new: func(c *Config) admission.Interface { return certificates.NewApproval(c.Authorizer) }},
	{name: certificates.SigningName, new: func(c *Config) admission.Interface { return certificates.NewSigning(c.Authorizer) }},
	{name: certificates.SubjectRestrictionName, new: func(*Config) admission.Interface { return certificates.NewSubjectRestriction() }},
	{name: ingressclass.Name, new: func(c *Config) admission.Interface { return ingressclass.New(c.Objects) }},
	{name: topologylabels.Name, new: func(c *Config) admission.Interface { return topologylabels.New(c.Objects) }},
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
