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
	"quintet.dev/quintet/components/apiserver/admission/podsecurity"
	"quintet.dev/quintet/components/apiserver/admission/priority"
	"quintet.dev/quintet/components/apiserver/admission/resourcequota"
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
	new  func(cfg *Config) (admission.Interface, error)
}

// plugins lists all plug-ins in the order in which they are called.
var plugins = []plugin{
	{name: namespacelifecycle.Name, new: func(c *Config) (admission.Interface, error) { return namespacelifecycle.New(c.Objects), nil }},
	{name: limitranger.Name, new: func(c *Config) (admission.Interface, error) { return limitranger.New(c.Objects), nil }},
	{name: serviceaccount.Name, new: func(c *Config) (admission.Interface, error) { return serviceaccount.New(c.Objects, c.Clock), nil }},
	{name: noderestriction.Name, off: true, new: func(c *Config) (admission.Interface, error) { return noderestriction.New(c.Objects, c.Authorizer), nil }},
	{name: nodetaint.Name, new: func(*Config) (admission.Interface, error) { return nodetaint.New(), nil }},
	{name: podsecurity.Name, new: func(c *Config) (admission.Interface, error) { return podsecurity.New(c.Objects) }},
	{name: priority.Name, new: func(c *Config) (admission.Interface, error) { return priority.New(c.Objects), nil }},
	{name: tolerationseconds.Name, new: newTolerationSeconds},
	{name: storageclass.Name, new: func(c *Config) (admission.Interface, error) { return storageclass.New(c.Objects), nil }},
	{name: inuseprotection.Name, new: func(*Config) (admission.Interface, error) { return inuseprotection.New(), nil }},
	{name: volumeresize.Name, new: func(c *Config) (admission.Interface, error) { return volumeresize.New(c.Objects), nil }},
	{name: runtimeclass.Name, new: func(c *Config) (admission.Interface, error) { return runtimeclass.New(c.Objects), nil }},
	{name: certificates.ApprovalName, new: func(c *Config) (admission.Interface, error) { return certificates.NewApproval(c.Authorizer), nil }},
	{name: certificates.SigningName, new: func(c *Config) (admission.Interface, error) { return certificates.NewSigning(c.Authorizer), nil }},
	{name: certificates.SubjectRestrictionName, new: func(*Config) (admission.Interface, error) { return certificates.NewSubjectRestriction(), nil }},
	{name: ingressclass.Name, new: func(c *Config) (admission.Interface, error) { return ingressclass.New(c.Objects), nil }},
	{name: topologylabels.Name, new: func(c *Config) (admission.Interface, error) { return topologylabels.New(c.Objects), nil }},
	// Quota is last: nothing may refuse what it has booked.
	{name: resourcequota.Name, new: func(c *Config) (admission.Interface, error) { return resourcequota.New(c.Objects), nil }},
}

// absent are the plug-ins of Kubernetes that are not here: they can be disabled, which they are, but not enabled.
var absent = []string{
	"AlwaysAdmit", "AlwaysDeny", "AlwaysPullImages", "ClusterTrustBundleAttest", "DenyServiceExternalIPs", "EventRateLimit",
	"ExtendedResourceToleration", "ImagePolicyWebhook", "LimitPodHardAntiAffinityTopology", "MutatingAdmissionPolicy",
	"MutatingAdmissionWebhook", "NamespaceAutoProvision", "NamespaceExists", "OwnerReferencesPermissionEnforcement",
	"PodNodeSelector", "PodTolerationRestriction", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook",
}

func newTolerationSeconds(c *Config) (admission.Interface, error) {
	seconds := func(v int64) int64 {
		if v == 0 {
			return tolerationseconds.DefaultSeconds
		}
		return v
	}
	return tolerationseconds.New(seconds(c.NotReadySeconds), seconds(c.UnreachableSeconds)), nil
}
