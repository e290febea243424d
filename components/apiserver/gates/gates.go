// Package gates knows the feature gates of the release
// (https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/). Few of them are switches here:
// what is built is what the release does by default. So any gate may be set to what it is, as the command lines of
// others do; those that Switches lists can be set to the opposite, so can those that mean nothing to clients of API
// servers, as clusters set their gates for all components alike, and for any other that is an error that names it.
package gates

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/component-base/featuregate"

	"quintet.dev/quintet/internal/release"
)

// The gates that are switches.
const (
	// APIResponseCompression compresses large responses, for clients that take them so.
	APIResponseCompression featuregate.Feature = "APIResponseCompression"
	// APIServerIdentity tells of each API server by a Lease.
	APIServerIdentity featuregate.Feature = "APIServerIdentity"
	// AllowInsecureKubeletCertificateSigningRequests lets nodes ask for certificates of other nodes' names.
	AllowInsecureKubeletCertificateSigningRequests featuregate.Feature = "AllowInsecureKubeletCertificateSigningRequests"
	// AllowParsingUserUIDFromCertAuth reads the UIDs of users in their certificates.
	AllowParsingUserUIDFromCertAuth featuregate.Feature = "AllowParsingUserUIDFromCertAuth"
	// AuthorizePodWebsocketUpgradeCreatePermission asks for create where a GET becomes a WebSocket into a pod.
	AuthorizePodWebsocketUpgradeCreatePermission featuregate.Feature = "AuthorizePodWebsocketUpgradeCreatePermission"
	// CBORServingAndStorage reads and writes CBOR on the wire, and stores custom resources so.
	CBORServingAndStorage featuregate.Feature = "CBORServingAndStorage"
	// ClearingNominatedNodeNameAfterBinding takes the node that was wished for from pods that get one, and refuses to
	// wish for another.
	ClearingNominatedNodeNameAfterBinding featuregate.Feature = "ClearingNominatedNodeNameAfterBinding"
	// ClusterTrustBundle lets bundles of certificates that all trust be served, where --runtime-config asks for their
	// version too.
	ClusterTrustBundle featuregate.Feature = "ClusterTrustBundle"
	// ClusterTrustBundleProjection lets volumes project such bundles.
	ClusterTrustBundleProjection featuregate.Feature = "ClusterTrustBundleProjection"
	// ComponentFlagz and ComponentStatusz serve /flagz and /statusz.
	ComponentFlagz   featuregate.Feature = "ComponentFlagz"
	ComponentStatusz featuregate.Feature = "ComponentStatusz"
	// ConstrainedImpersonation lets users act as others for some requests only.
	ConstrainedImpersonation featuregate.Feature = "ConstrainedImpersonation"
	// ContainerStopSignals lets containers name the signal that stops them.
	ContainerStopSignals featuregate.Feature = "ContainerStopSignals"
	// DRADeviceTaintRules lets the scheduler, and the controller that evicts from tainted devices, read rules for that.
	DRADeviceTaintRules featuregate.Feature = "DRADeviceTaintRules"
	// DetectCacheInconsistency compares the caches with the store now and then.
	DetectCacheInconsistency featuregate.Feature = "DetectCacheInconsistency"
	// ExtendWebSocketsToKubelet leaves WebSocket clients to kubelets that say they speak with them.
	ExtendWebSocketsToKubelet featuregate.Feature = "ExtendWebSocketsToKubelet"
	// HPAScaleToZero lets autoscalers have 0 minReplicas.
	HPAScaleToZero featuregate.Feature = "HPAScaleToZero"
	// KMSv1 takes keys from services of the first version of the protocol, too.
	KMSv1 featuregate.Feature = "KMSv1"
	// MutatingAdmissionPolicy asks the policies that change objects.
	MutatingAdmissionPolicy featuregate.Feature = "MutatingAdmissionPolicy"
	// OpenAPIEnums tells which values fields of the API's types may have.
	OpenAPIEnums featuregate.Feature = "OpenAPIEnums"
	// PodCertificateRequest lets kubelets request certificates for pods and volumes project them, where --runtime-config
	// asks for the version of such requests too.
	PodCertificateRequest featuregate.Feature = "PodCertificateRequest"
	// PodTopologyLabelsAdmission gives pods the zone and region of their node.
	PodTopologyLabelsAdmission featuregate.Feature = "PodTopologyLabelsAdmission"
	// PortForwardWebsockets lets WebSockets reach ports of pods on nodes whose kubelets speak SPDY only.
	PortForwardWebsockets featuregate.Feature = "PortForwardWebsockets"
	// RelaxedServiceNameValidation lets names of Services begin with a digit.
	RelaxedServiceNameValidation featuregate.Feature = "RelaxedServiceNameValidation"
	// RemoteRequestHeaderUID lets proxies tell this server the UIDs of their users, and this server tell extension
	// servers.
	RemoteRequestHeaderUID featuregate.Feature = "RemoteRequestHeaderUID"
	// ServiceAccountNodeAudienceRestriction gives nodes tokens for audiences only that their pods have use for.
	ServiceAccountNodeAudienceRestriction featuregate.Feature = "ServiceAccountNodeAudienceRestriction"
	// ServiceCIDRStatusFieldWiping keeps the status of ServiceCIDRs from those who don't write to /status.
	ServiceCIDRStatusFieldWiping featuregate.Feature = "ServiceCIDRStatusFieldWiping"
	// StorageVersionHash lets discovery tell which resources are stored as one.
	StorageVersionHash featuregate.Feature = "StorageVersionHash"
	// StorageVersionMigrator lets StorageVersionMigrations be served, where --runtime-config asks for their version
	// too.
	StorageVersionMigrator featuregate.Feature = "StorageVersionMigrator"
	// TokenRequestServiceAccountUIDValidation refuses requests for tokens of a service account with another UID.
	TokenRequestServiceAccountUIDValidation featuregate.Feature = "TokenRequestServiceAccountUIDValidation"
	// UnknownVersionInteroperabilityProxy lets API servers of one cluster know of each other, and pass requests on.
	UnknownVersionInteroperabilityProxy featuregate.Feature = "UnknownVersionInteroperabilityProxy"
	// WatchList lets watches begin with what exists, and tell when that is over.
	WatchList featuregate.Feature = "WatchList"
)

// Switches lists the gates that can be set to what they are not by default.
func Switches() []featuregate.Feature {
	return []featuregate.Feature{
		APIResponseCompression,
		APIServerIdentity,
		AllowInsecureKubeletCertificateSigningRequests,
		AllowParsingUserUIDFromCertAuth,
		AuthorizePodWebsocketUpgradeCreatePermission,
		CBORServingAndStorage,
		ClearingNominatedNodeNameAfterBinding,
		ClusterTrustBundle,
		ClusterTrustBundleProjection,
		ComponentFlagz,
		ComponentStatusz,
		ConstrainedImpersonation,
		ContainerStopSignals,
		DRADeviceTaintRules,
		DetectCacheInconsistency,
		ExtendWebSocketsToKubelet,
		HPAScaleToZero,
		KMSv1,
		MutatingAdmissionPolicy,
		OpenAPIEnums,
		PodCertificateRequest,
		PodTopologyLabelsAdmission,
		PortForwardWebsockets,
		RelaxedServiceNameValidation,
		RemoteRequestHeaderUID,
		ServiceAccountNodeAudienceRestriction,
		ServiceCIDRStatusFieldWiping,
		StorageVersionHash,
		StorageVersionMigrator,
		TokenRequestServiceAccountUIDValidation,
		UnknownVersionInteroperabilityProxy,
		WatchList,
	}
}

// Gates are the features of the release as they were set. They don't change.
type Gates struct {
	specs map[featuregate.Feature]featuregate.FeatureSpec // Default is what they are
}

// New sets gates; AllAlpha and AllBeta stand for all of their stage.
func New(set map[string]bool) (*Gates, error) {
	g := &Gates{specs: release.Gates()}
	if len(set) == 0 {
		return g, nil
	}
	gate := featuregate.NewFeatureGate()
	if err := errors.Join(gate.Add(g.specs), gate.AddDependencies(needs()), gate.SetFromMap(set)); err != nil {
		return nil, err
	}
	free := slices.Concat(Switches(), elsewhere, within)
	var refused []string
	for _, name := range slices.Sorted(maps.Keys(g.specs)) {
		spec := g.specs[name]
		on := gate.Enabled(name)
		if on != spec.Default && !slices.Contains(free, name) {
			refused = append(refused, fmt.Sprintf("%s=%v", name, on))
		}
		spec.Default = on
		g.specs[name] = spec
	}
	if len(refused) > 0 {
		return nil, fmt.Errorf("--feature-gates: not supported, as these features are what they are by default: %s",
			strings.Join(refused, ","))
	}
	return g, nil
}

// On tells whether a feature is on. It panics if the release has no such gate.
func (g *Gates) On(name featuregate.Feature) bool {
	spec, ok := g.specs[name]
	if !ok {
		panic(fmt.Sprintf("gates: the release has no %s", name))
	}
	return spec.Default
}

// All returns all gates; their defaults are what they are set to.
func (g *Gates) All() map[featuregate.Feature]featuregate.FeatureSpec { return maps.Clone(g.specs) }
