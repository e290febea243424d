// Package model is what NetworkPolicies want of the kernel of one node, as data: the compiler makes it of pods,
// namespaces and policies, the packet filter carries it out.
package model

import (
	"net/netip"

	v1 "k8s.io/api/core/v1"
)

// Direction of traffic, seen from the pod that a policy selects.
type Direction string

// The directions.
const (
	Ingress Direction = "ingress"
	Egress  Direction = "egress"
)

// Directions lists both.
func Directions() [2]Direction { return [2]Direction{Ingress, Egress} }

// PolicyKey identifies a NetworkPolicy in one of the directions that it applies to.
type PolicyKey struct {
	Direction       Direction
	Namespace, Name string
}

// Match is one way to be allowed by a policy: all its conditions are met. The zero value allows everything.
type Match struct {
	// Peer is a set of KindAddresses or KindRanges that the other end's address is in; the zero value is any.
	Peer SetID
	// Named is a set of KindPorts that the destination's address, the protocol and the destination's port are in; the
	// zero value is any.
	Named SetID
	// Protocol is "" for any, also those without ports.
	Protocol v1.Protocol
	// Ports are sorted, disjoint and not adjacent; none stands for all ports of Protocol.
	Ports []PortRange
}

// PortRange includes both ends.
type PortRange struct{ First, Last uint16 }

// Kind of a set's elements.
type Kind string

// The kinds.
const (
	KindAddresses Kind = "pods"
	KindRanges    Kind = "blocks"
	KindPorts     Kind = "ports"
)

// SetID identifies a set. Key determines its content; sets with equal keys are the same.
type SetID struct {
	Kind Kind
	Key  string
}

// Element of a set. It has an address alone in KindAddresses; To in KindRanges, the last address of a range of one
// family; Protocol and Port in KindPorts.
type Element struct {
	Addr, To netip.Addr
	Protocol v1.Protocol
	Port     uint16
}

// Group is the pods of this node that the same policies select in one direction. Its pods are isolated.
type Group struct {
	Direction Direction
	Namespace string
	// Policies are the names, sorted, separated by commas.
	Policies string
}

// PodAddress is an address of a pod of this node, in one direction.
type PodAddress struct {
	Direction Direction
	Addr      netip.Addr
}

// Model is all that the kernel should hold. It belongs to one goroutine.
type Model struct {
	// Pods are the isolated pods of this node.
	Pods map[PodAddress]Group
	// Groups counts the addresses in each group of Pods.
	Groups map[Group]int
	// Policies has those that apply to pods of whatever node; none of the matches means that nothing is allowed.
	Policies map[PolicyKey][]Match
	// Sets counts how often each element was put into a set, e.g. by pods that share an address.
	Sets map[SetID]map[Element]int
	// Local are the known addresses of this node's pods, isolated or not. It is empty where there are no policies.
	Local map[netip.Addr]struct{}
	// Starting tells in which directions pods of this node are isolated whose addresses are not known yet.
	Starting map[Direction]bool
	// PodCIDRs are the ranges that this node's pods have their addresses from, sorted.
	PodCIDRs []netip.Prefix
}

// New returns an empty model.
func New() *Model {
	return &Model{
		Pods: map[PodAddress]Group{}, Groups: map[Group]int{}, Policies: map[PolicyKey][]Match{},
		Sets: map[SetID]map[Element]int{}, Local: map[netip.Addr]struct{}{}, Starting: map[Direction]bool{},
	}
}

// Changes say what differs between a model and what it was when changes were last taken.
type Changes struct {
	// Pods, Groups, Policies, Sets and Local have the keys that may differ, and what was there: a zero Group or false
	// where nothing was.
	Pods     map[PodAddress]Group
	Groups   map[Group]bool
	Policies map[PolicyKey]bool
	Sets     map[SetID]bool
	Local    map[netip.Addr]bool
	// Added and Removed are elements of sets that are there before or after; no element is in both.
	Added, Removed map[SetID]map[Element]struct{}
	// StartingDiffers tells that Starting or PodCIDRs differ.
	StartingDiffers bool
	// Ended are addresses of pods of this node that were deleted or ended, and of no other pod. It is empty where there
	// are no policies.
	Ended map[netip.Addr]struct{}
}

// NewChanges returns no changes.
func NewChanges() *Changes {
	return &Changes{
		Pods: map[PodAddress]Group{}, Groups: map[Group]bool{}, Policies: map[PolicyKey]bool{}, Sets: map[SetID]bool{},
		Local: map[netip.Addr]bool{}, Added: map[SetID]map[Element]struct{}{},
		Removed: map[SetID]map[Element]struct{}{},
		Ended:   map[netip.Addr]struct{}{},
	}
}

// Empty tells whether the models do not differ.
func (c *Changes) Empty() bool {
	return len(c.Pods)+len(c.Groups)+len(c.Policies)+len(c.Sets)+len(c.Local)+len(c.Added)+len(c.Removed) == 0 &&
		!c.StartingDiffers
}

// All returns the changes from an empty model to this one.
func (m *Model) All() *Changes {
	c := NewChanges()
	c.StartingDiffers = true
	for addr := range m.Pods {
		c.Pods[addr] = Group{}
	}
	for group := range m.Groups {
		c.Groups[group] = false
	}
	for key := range m.Policies {
		c.Policies[key] = false
	}
	for addr := range m.Local {
		c.Local[addr] = false
	}
	for id, elements := range m.Sets {
		c.Sets[id] = false
		c.Added[id] = map[Element]struct{}{}
		for element := range elements {
			c.Added[id][element] = struct{}{}
		}
	}
	return c
}
