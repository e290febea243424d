// Package dynamicresources allocates devices to the claims of pods, and binds the claims before the pods
// (https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/).
//
// Which devices a claim gets on a node is decided by k8s.io/dynamic-resource-allocation/structured, over what the
// snapshot has of slices, classes and claims. Until an allocation is written, the snapshot holds it as pending.
package dynamicresources

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

// Name of the plug-in.
const Name = "DynamicResources"

// How long allocating on one node, and waiting for a device to become ready, take at most by default.
const (
	DefaultFilterTimeout  = 10 * time.Second
	DefaultBindingTimeout = 10 * time.Minute
)

// compiled is how many compiled CEL expressions are kept.
const compiled = 10

// Features are what feature gates turn on and off.
type Features struct {
	structured.Features
	// ExtendedResource has claims made for extended resources that device classes serve (DRAExtendedResource).
	ExtendedResource bool
	// FilterTimeout bounds allocating on a node (DRASchedulerFilterTimeout).
	FilterTimeout bool
}

// Config is what the plug-in acts with.
type Config struct {
	Features Features
	// FilterTimeout of 0 does not bound allocating on a node.
	FilterTimeout, BindingTimeout time.Duration
	Clock                         clock.PassiveClock
	Client                        kubernetes.Interface
	// Claim returns a claim as its informer knows it, or an API error. It is called at any time, by many at once.
	Claim func(namespace, name string) (*resourcev1.ResourceClaim, error)
	// Created is told of every attempt to create a claim, and may be nil.
	Created func(error)
	// Awaited is told how the wait for the binding conditions of a driver's devices ended, and may be nil. profile is the
	// pod's.
	Awaited func(profile, driver string, outcome Outcome, took time.Duration)
}

// Plugin is a cycle.Filter, cycle.PostFilter, cycle.Score, commit.Reserve, commit.PreBind and a gate. Of its methods,
// those of a cycle are called by one goroutine at a time.
type Plugin struct {
	Config
	compiled *cel.Cache
	answers  answers
	last     *test // of the cycle under way, for its score
}

// New makes the plug-in.
func New(c Config) *Plugin {
	return &Plugin{Config: c, compiled: cel.NewCache(compiled, cel.Features{
		EnableConsumableCapacity: c.Features.ConsumableCapacity, EnableListTypeAttributes: c.Features.ListTypeAttributes,
	})}
}

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Gated keeps pods from being tried whose claims are not there yet, or going.
func (f *Plugin) Gated(p *snapshot.Pod) string {
	if len(p.Obj.Spec.ResourceClaims) == 0 {
		return ""
	}
	if _, err := claimsOf(p.Obj, f.Claim); err != nil {
		return err.Error()
	}
	return ""
}

// Filter refuses pods whose claims can't be allocated at all, and tests nodes for the others.
func (f *Plugin) Filter(p *snapshot.Pod, s *snapshot.Snapshot) (cycle.Test, *cycle.Refusal) {
	f.last = nil
	t := &test{plugin: f, pod: p, snapshot: s, special: -1, wanted: map[string]*wanted{},
		fresh: map[string]result{}}
	if refusal := t.collect(); refusal != nil {
		return nil, refusal
	}
	if len(t.claims) == 0 {
		return nil, nil
	}
	for i, claim := range t.claims {
		if refusal := t.inspect(i, claim); refusal != nil {
			return nil, refusal
		}
		t.allocated = t.allocated || claim.Status.Allocation != nil
		t.allocates = t.allocates || claim.Status.Allocation == nil
	}
	if t.allocates {
		t.prepare()
	}
	f.last = t
	return t, nil
}

// inspect refuses a claim that is in use, about to be allocated, or asks for what does not exist.
func (t *test) inspect(i int, claim *resourcev1.ResourceClaim) *cycle.Refusal {
	if claim.Status.Allocation != nil {
		if !usable(claim, t.pod.Obj) {
			return refuse("resourceclaim in use")
		}
		return t.restrict(i, claim.Status.Allocation.NodeSelector)
	}
	if t.snapshot.Allocating(claim.UID) {
		return refuse(fmt.Sprintf("resource claim %s/%s is in the process of being allocated", claim.Namespace,
			claim.Name))
	}
	if i == t.special { // it asks for nothing yet, or is refused on each node
		return nil
	}
	for r := range claim.Spec.Devices.Requests {
		if refusal := t.inspectRequest(claim, &claim.Spec.Devices.Requests[r]); refusal != nil {
			return refusal
		}
	}
	return nil
}

func (t *test) inspectRequest(claim *resourcev1.ResourceClaim, r *resourcev1.DeviceRequest) *cycle.Refusal {
	of := fmt.Sprintf("resource claim %s/%s, request %s: ", claim.Namespace, claim.Name, r.Name)
	switch {
	case r.Exactly != nil:
		return t.inspectClass(r.Exactly.DeviceClassName, r.Name)
	case len(r.FirstAvailable) > 0 && !t.plugin.Features.PrioritizedList:
		return refuse(of + "has subrequests, but the DRAPrioritizedList feature is disabled")
	case len(r.FirstAvailable) > 0:
		for i := range r.FirstAvailable {
			sub := &r.FirstAvailable[i]
			if refusal := t.inspectClass(sub.DeviceClassName, r.Name+"/"+sub.Name); refusal != nil {
				return refusal
			}
		}
		return nil
	}
	return refuse(of + "unknown request type")
}

func (t *test) inspectClass(class, request string) *cycle.Refusal {
	switch {
	case class == "":
		return failed(fmt.Errorf("request %s: unsupported request type", request))
	case t.snapshot.DeviceClass(class) == nil:
		return refuse(fmt.Sprintf("request %s: device class %s does not exist", request, class))
	}
	return nil
}

func refuse(reason string) *cycle.Refusal {
	return &cycle.Refusal{Reasons: []string{reason}, Unresolvable: true}
}

func failed(err error) *cycle.Refusal { return &cycle.Refusal{Err: err} }

// usable tells whether an allocated claim is reserved for the pod, or can be.
func usable(claim *resourcev1.ResourceClaim, pod *v1.Pod) bool {
	return reserved(claim, pod) || len(claim.Status.ReservedFor) < resourcev1.ResourceClaimReservedForMaxSize
}
