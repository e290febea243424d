package suite

import "slices"

// Profile is a part of Kubernetes that a cluster, or the program of one component, can claim to conform to.
type Profile string

// Profiles, from the least to the whole.
const (
	ProfileAPIOnly     Profile = "api-only"    // an API server, and nothing else
	ProfileScheduler   Profile = "scheduler"   // pods are bound
	ProfileControllers Profile = "controllers" // workloads, volumes and namespaces are reconciled
	ProfileNode        Profile = "node"        // pods run
	ProfileNetwork     Profile = "network"     // pods, Services and names reach each other
	ProfileFull        Profile = "full"        // all cases
)

// Profiles lists all profiles.
func Profiles() []Profile {
	return []Profile{ProfileAPIOnly, ProfileScheduler, ProfileControllers, ProfileNode, ProfileNetwork, ProfileFull}
}

// Core lists the features without which a cluster can't conform to the profile. All others are extended: a cluster may
// lack them.
func (p Profile) Core() []Feature {
	switch p {
	case ProfileScheduler:
		return []Feature{HasScheduler}
	case ProfileControllers:
		return []Feature{HasControllers}
	case ProfileNode:
		return []Feature{HasScheduler, RunsPods, PodNetwork}
	case ProfileNetwork, ProfileFull:
		return []Feature{HasScheduler, HasControllers, RunsPods, PodNetwork, ServiceNetwork, ClusterDNS}
	}
	return nil
}

// profileOf is the profile of the cases of a component that name none.
func profileOf(component Component) Profile {
	switch component {
	case APIServer:
		return ProfileAPIOnly
	case Scheduler:
		return ProfileScheduler
	case Controllers:
		return ProfileControllers
	case Kubelet:
		return ProfileNode
	case KubeProxy, DNS, NetworkPolicy, LoadBalancer:
		return ProfileNetwork
	}
	return ProfileFull
}

// In lists the profiles that the case is part of, the narrowest first. Every case is part of ProfileFull.
func (c *Case) In() []Profile {
	in := slices.Clone(c.Profiles)
	if len(in) == 0 {
		in = []Profile{profileOf(c.Component)}
	}
	if !slices.Contains(in, ProfileFull) {
		in = append(in, ProfileFull)
	}
	return in
}

// CoreIn tells whether a cluster of the profile must have all that the case needs.
func (c *Case) CoreIn(p Profile) bool {
	core := p.Core()
	return !slices.ContainsFunc(c.Needs, func(need Feature) bool { return !slices.Contains(core, need) })
}

// Extended lists the features that some cases of the profile need and that it may lack, in the order of Features.
func (p Profile) Extended(cases []Case) []Feature {
	core := p.Core()
	var out []Feature
	for _, feature := range Features() {
		if slices.Contains(core, feature) {
			continue
		}
		if slices.ContainsFunc(cases, func(c Case) bool {
			return slices.Contains(c.In(), p) && slices.Contains(c.Needs, feature)
		}) {
			out = append(out, feature)
		}
	}
	return out
}
