package admission

import (
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/admission/always"
	"quintet.dev/quintet/components/apiserver/admission/alwayspullimages"
	"quintet.dev/quintet/components/apiserver/admission/antiaffinity"
	"quintet.dev/quintet/components/apiserver/admission/certificates"
	"quintet.dev/quintet/components/apiserver/admission/declaredfeatures"
	"quintet.dev/quintet/components/apiserver/admission/dynamic"
	"quintet.dev/quintet/components/apiserver/admission/eventratelimit"
	"quintet.dev/quintet/components/apiserver/admission/extendedresources"
	"quintet.dev/quintet/components/apiserver/admission/externalips"
	"quintet.dev/quintet/components/apiserver/admission/imagepolicy"
	"quintet.dev/quintet/components/apiserver/admission/ingressclass"
	"quintet.dev/quintet/components/apiserver/admission/inuseprotection"
	"quintet.dev/quintet/components/apiserver/admission/limitranger"
	"quintet.dev/quintet/components/apiserver/admission/namespaceautoprovision"
	"quintet.dev/quintet/components/apiserver/admission/namespaceexists"
	"quintet.dev/quintet/components/apiserver/admission/namespacelifecycle"
	"quintet.dev/quintet/components/apiserver/admission/noderestriction"
	"quintet.dev/quintet/components/apiserver/admission/nodetaint"
	"quintet.dev/quintet/components/apiserver/admission/ownerreferences"
	"quintet.dev/quintet/components/apiserver/admission/podnodeselector"
	"quintet.dev/quintet/components/apiserver/admission/podresize"
	"quintet.dev/quintet/components/apiserver/admission/podsecurity"
	"quintet.dev/quintet/components/apiserver/admission/priority"
	"quintet.dev/quintet/components/apiserver/admission/resourcequota"
	"quintet.dev/quintet/components/apiserver/admission/runtimeclass"
	"quintet.dev/quintet/components/apiserver/admission/serviceaccount"
	"quintet.dev/quintet/components/apiserver/admission/storageclass"
	"quintet.dev/quintet/components/apiserver/admission/tolerationrestriction"
	"quintet.dev/quintet/components/apiserver/admission/tolerationseconds"
	"quintet.dev/quintet/components/apiserver/admission/topologylabels"
	"quintet.dev/quintet/components/apiserver/admission/volumeresize"
	"quintet.dev/quintet/internal/release"
)

// plugin is one entry of the list.
type plugin struct {
	name string
	off  bool // unless enabled
	file bool // it can be configured by --admission-control-config-file
	// new makes the plug-in; file is its configuration, nil if there is none.
	new func(cfg *Config, file []byte) (admission.Interface, error)
}

// plugins lists all plug-ins in the order in which they are called.
var plugins = []plugin{
	{name: always.AdmitName, off: true,
		new: func(*Config, []byte) (admission.Interface, error) { return always.NewAdmit(), nil }},
	{name: namespaceautoprovision.Name, off: true, new: func(c *Config, _ []byte) (admission.Interface, error) {
		return namespaceautoprovision.New(c.Objects, c.Dynamic.Client)
	}},
	{name: namespacelifecycle.Name,
		new: func(c *Config, _ []byte) (admission.Interface, error) { return namespacelifecycle.New(c.Objects), nil }},
	{name: namespaceexists.Name, off: true,
		new: func(c *Config, _ []byte) (admission.Interface, error) { return namespaceexists.New(c.Objects), nil }},
	{name: antiaffinity.Name, off: true,
		new: func(*Config, []byte) (admission.Interface, error) { return antiaffinity.New(), nil }},
	{name: limitranger.Name, new: func(c *Config, _ []byte) (admission.Interface,
		error) {
		return limitranger.New(c.Objects), nil
	}},
	{name: serviceaccount.Name, new: func(c *Config, _ []byte) (admission.Interface, error) {
		return serviceaccount.New(c.Objects, c.Clock), nil
	}},
	{name: noderestriction.Name, off: true, new: func(c *Config, _ []byte) (admission.Interface, error) {
		return noderestriction.New(
			noderestriction.Config{Objects: c.Objects, Authorizer: c.Authorizer, AnyAudience: c.AnyNodeAudience,
				AnyName: c.AnyNodeName}), nil
	}},
	{name: nodetaint.Name, new: func(*Config, []byte) (admission.Interface, error) { return nodetaint.New(), nil }},
	{name: alwayspullimages.Name, off: true,
		new: func(*Config, []byte) (admission.Interface, error) { return alwayspullimages.New(), nil }},
	{name: imagepolicy.Name, off: true, file: true,
		new: func(_ *Config, file []byte) (admission.Interface, error) { return imagepolicy.New(file) }},
	{name: podsecurity.Name, file: true, new: func(c *Config, file []byte) (admission.Interface, error) {
		return podsecurity.New(c.Objects, file, c.PodSecurity)
	}},
	{name: podnodeselector.Name, off: true, file: true, new: func(c *Config, file []byte) (admission.Interface, error) {
		return podnodeselector.New(c.Objects, file)
	}},
	{name: priority.Name, new: func(c *Config, _ []byte) (admission.Interface, error) {
		return priority.New(c.Objects),
			nil
	}},
	{name: tolerationseconds.Name, new: newTolerationSeconds},
	{name: tolerationrestriction.Name, off: true, file: true,
		new: func(c *Config, file []byte) (admission.Interface, error) {
			return tolerationrestriction.New(c.Objects, file)
		}},
	{name: eventratelimit.Name, off: true, file: true, new: func(c *Config, file []byte) (admission.Interface, error) {
		return eventratelimit.New(file, c.Clock)
	}},
	{name: extendedresources.Name, off: true,
		new: func(*Config, []byte) (admission.Interface, error) { return extendedresources.New(), nil }},
	{name: storageclass.Name,
		new: func(c *Config, _ []byte) (admission.Interface, error) { return storageclass.New(c.Objects), nil }},
	{name: inuseprotection.Name,
		new: func(*Config, []byte) (admission.Interface, error) { return inuseprotection.New(), nil }},
	{name: podGroupProtection, new: func(*Config, []byte) (admission.Interface, error) {
		return idleMutator{admission.NewHandler(admission.Create)}, nil
	}},
	{name: ownerreferences.Name, off: true, new: func(c *Config, _ []byte) (admission.Interface, error) {
		return ownerreferences.New(c.Authorizer, dynamic.NewMapper(&c.Dynamic)), nil
	}},
	{name: volumeresize.Name,
		new: func(c *Config, _ []byte) (admission.Interface, error) { return volumeresize.New(c.Objects), nil }},
	{name: runtimeclass.Name,
		new: func(c *Config, _ []byte) (admission.Interface, error) { return runtimeclass.New(c.Objects), nil }},
	{name: certificates.ApprovalName, new: func(c *Config, _ []byte) (admission.Interface, error) {
		return certificates.NewApproval(c.Authorizer), nil
	}},
	{name: certificates.SigningName, new: func(c *Config, _ []byte) (admission.Interface, error) {
		return certificates.NewSigning(c.Authorizer), nil
	}},
	{name: certificates.AttestName, new: func(c *Config, _ []byte) (admission.Interface, error) {
		return certificates.NewAttest(c.Authorizer), nil
	}},
	{name: certificates.SubjectRestrictionName,
		new: func(*Config, []byte) (admission.Interface, error) { return certificates.NewSubjectRestriction(), nil }},
	{name: ingressclass.Name,
		new: func(c *Config, _ []byte) (admission.Interface, error) { return ingressclass.New(c.Objects), nil }},
	{name: externalips.Name, off: true,
		new: func(*Config, []byte) (admission.Interface, error) { return externalips.New(), nil }},
	{name: topologylabels.Name,
		new: func(c *Config, _ []byte) (admission.Interface, error) { return topologylabels.New(c.Objects), nil }},
	{name: podGroupWorkloadExists, new: func(*Config, []byte) (admission.Interface, error) {
		return idleValidator{admission.NewHandler(admission.Create)}, nil
	}},
	{name: declaredfeatures.Name, new: func(c *Config, _ []byte) (admission.Interface, error) {
		return declaredfeatures.New(c.Objects, release.Get().GitVersion)
	}},
	{name: jobValidation, new: func(*Config, []byte) (admission.Interface, error) {
		return idleValidator{admission.NewHandler(admission.Update)}, nil
	}},
	{name: podresize.Name, new: func(c *Config, _ []byte) (admission.Interface,
		error) {
		return podresize.New(c.Objects), nil
	}},
	{name: dynamic.MutatingPolicy, file: true, new: func(c *Config, file []byte) (admission.Interface, error) {
		return dynamic.NewMutatingPolicy(&c.Dynamic, file)
	}},
	{name: dynamic.MutatingWebhook, file: true, new: func(c *Config, file []byte) (admission.Interface, error) {
		return dynamic.NewMutatingWebhook(&c.Dynamic, file)
	}},
	{name: dynamic.ValidatingPolicy, file: true, new: func(c *Config, file []byte) (admission.Interface, error) {
		return dynamic.NewValidatingPolicy(&c.Dynamic, file)
	}},
	{name: dynamic.ValidatingWebhook, file: true, new: func(c *Config, file []byte) (admission.Interface, error) {
		return dynamic.NewValidatingWebhook(&c.Dynamic, file)
	}},
	// Quota comes after all plugins that may reject a request that it has charged.
	{name: resourcequota.Name, file: true, new: func(c *Config, file []byte) (admission.Interface, error) {
		return resourcequota.New(c.Objects, c.Clock, file)
	}},
	{name: always.DenyName, off: true,
		new: func(*Config, []byte) (admission.Interface, error) { return always.NewDeny(), nil }},
}

func newTolerationSeconds(c *Config, _ []byte) (admission.Interface, error) {
	return tolerationseconds.New(ptr.Deref(c.NotReadySeconds, tolerationseconds.DefaultSeconds),
		ptr.Deref(c.UnreachableSeconds, tolerationseconds.DefaultSeconds)), nil
}
