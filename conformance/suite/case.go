// Package suite is what cases are written with: their specification, the cluster under test as a case sees it, and the
// engine that runs them.
package suite

import (
	"context"
	"time"
)

// Component is the part of a cluster that a case tests. A case belongs to the one that fails when it fails.
type Component string

// Components, in the order of the lifecycle of a pod; Flow tests all of them together.
const (
	APIServer     Component = "kube-apiserver"
	Scheduler     Component = "kube-scheduler"
	Controllers   Component = "kube-controller-manager"
	Kubelet       Component = "kubelet"
	KubeProxy     Component = "kube-proxy"
	DNS           Component = "dns"
	NetworkPolicy Component = "network-policy"
	LoadBalancer  Component = "load-balancer"
	Flow          Component = "flow"
)

// Feature is something that a cluster may lack without being wrong. Cases name those they need.
type Feature string

// Features. They are declared by the user, or found by Detect.
const (
	HasScheduler    Feature = "scheduler"      // a kube-scheduler is at work
	HasControllers  Feature = "controllers"    // a kube-controller-manager is at work
	RunsPods        Feature = "pods"           // at least one ready node runs real containers
	TwoNodes        Feature = "two-nodes"      // at least two ready nodes take pods
	PodNetwork      Feature = "pod-network"    // pods reach each other by address, also across nodes
	ServiceNetwork  Feature = "services"       // the addresses of Services work in pods
	ClusterDNS      Feature = "dns"            // pods resolve the names of Services
	NetworkPolicies Feature = "network-policy" // the pod network enforces NetworkPolicies
	LoadBalancers   Feature = "load-balancer"  // Services of type LoadBalancer get an address
	NodeAccess      Feature = "node-access"    // the suite itself reaches the addresses of nodes
	ProtobufWire    Feature = "protobuf"       // the API is served as protobuf, too
	TableOutput     Feature = "server-table"   // the API server prints
	DefaultStorage  Feature = "storage"        // there is a default StorageClass
	ResourceMetrics Feature = "metrics"        // metrics.k8s.io is served, as by metrics-server

	DeviceClaims Feature = "device-claims" // resource.k8s.io is served: pods may claim devices

	CSIVolumes       Feature = "csi"           // there is a StorageClass of a CSI driver
	CSIInlineVolumes Feature = "csi-inline"    // such a driver makes volumes that pods describe themselves
	CSIExpansion     Feature = "csi-expansion" // such a class lets volumes grow
	CSIBlock         Feature = "csi-block"     // volumes of such a class can be devices

	DevicePlugin Feature = "device-plugin" // nodes offer the extended resource of the device driver for tests
	ClaimDevices Feature = "claim-devices" // that driver publishes devices for ResourceClaims

	KubeletConfigs Feature = "kubelet-config" // a kubelet shows how it is configured
	StaticPods     Feature = "static-pods"    // a kubelet, as it shows, runs the manifests of a directory
	PIDLimit       Feature = "pid-limit"      // a kubelet, as it shows, bounds the processes of pods
	HasHugePages   Feature = "huge-pages"     // pods of a node may have huge pages
)

// Features lists all features.
func Features() []Feature {
	return []Feature{
		HasScheduler, HasControllers, RunsPods, TwoNodes, PodNetwork, ServiceNetwork, ClusterDNS, NetworkPolicies,
		LoadBalancers, NodeAccess, ProtobufWire, TableOutput, DefaultStorage, ResourceMetrics,
		DeviceClaims, CSIVolumes, CSIInlineVolumes, CSIExpansion, CSIBlock, DevicePlugin, ClaimDevices,
		KubeletConfigs, StaticPods, PIDLimit, HasHugePages,
	}
}

// Case is one requirement and the code that checks it.
type Case struct {
	// ID never changes: "<area>/<what>".
	ID        string
	Component Component
	// Requirement is one sentence with MUST in it.
	Requirement string
	// Reference is the address of the documentation that says so.
	Reference string
	Needs     []Feature
	// Profiles that the case is part of, besides ProfileFull; none means that of Component.
	Profiles []Profile
	// Since is the suite's version that first had the case.
	Since string
	// Timeout bounds Run; 0 means DefaultTimeout.
	Timeout time.Duration
	// Score records the timeline of the case's namespace.
	Score bool
	// Serial tells that the case would disturb others, or be disturbed by them: it runs alone.
	Serial bool
	// Run checks the requirement in t's own fresh namespace, which is deleted afterwards.
	Run func(ctx context.Context, t *T)
}

// DefaultTimeout bounds cases that name none.
const DefaultTimeout = 90 * time.Second
