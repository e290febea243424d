package informer

import (
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/apiserverinternal"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/autoscaling"
	"k8s.io/client-go/informers/batch"
	"k8s.io/client-go/informers/certificates"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/discovery"
	"k8s.io/client-go/informers/events"
	"k8s.io/client-go/informers/extensions"
	"k8s.io/client-go/informers/flowcontrol"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/informers/storagemigration"
)

// Groups are the groups of a factory that wraps one of client-go, of which the groups would ask that one for their
// informers.
type Groups struct {
	of internalinterfaces.SharedInformerFactory
}

// GroupsOf returns the groups whose informers come from f.
func GroupsOf(f internalinterfaces.SharedInformerFactory) Groups { return Groups{f} }

// Admissionregistration implements informers.SharedInformerFactory, as do the methods below.
func (g Groups) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(g.of, "", nil)
}
func (g Groups) Internal() apiserverinternal.Interface { return apiserverinternal.New(g.of, "", nil) }
func (g Groups) Apps() apps.Interface                  { return apps.New(g.of, "", nil) }
func (g Groups) Autoscaling() autoscaling.Interface    { return autoscaling.New(g.of, "", nil) }
func (g Groups) Batch() batch.Interface                { return batch.New(g.of, "", nil) }
func (g Groups) Certificates() certificates.Interface  { return certificates.New(g.of, "", nil) }
func (g Groups) Coordination() coordination.Interface  { return coordination.New(g.of, "", nil) }
func (g Groups) Core() core.Interface                  { return core.New(g.of, "", nil) }
func (g Groups) Discovery() discovery.Interface        { return discovery.New(g.of, "", nil) }
func (g Groups) Events() events.Interface              { return events.New(g.of, "", nil) }
func (g Groups) Extensions() extensions.Interface      { return extensions.New(g.of, "", nil) }
func (g Groups) Flowcontrol() flowcontrol.Interface    { return flowcontrol.New(g.of, "", nil) }
func (g Groups) Networking() networking.Interface      { return networking.New(g.of, "", nil) }
func (g Groups) Node() node.Interface                  { return node.New(g.of, "", nil) }
func (g Groups) Policy() policy.Interface              { return policy.New(g.of, "", nil) }
func (g Groups) Rbac() rbac.Interface                  { return rbac.New(g.of, "", nil) }
func (g Groups) Resource() resource.Interface          { return resource.New(g.of, "", nil) }
func (g Groups) Scheduling() scheduling.Interface      { return scheduling.New(g.of, "", nil) }
func (g Groups) Storage() storage.Interface            { return storage.New(g.of, "", nil) }
func (g Groups) Storagemigration() storagemigration.Interface {
	return storagemigration.New(g.of, "", nil)
}
