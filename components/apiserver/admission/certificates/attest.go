package certificates

import (
	"context"
	"fmt"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"quintet.dev/quintet/components/apiserver/admission/collection"
)

// AttestName is the name of the plug-in that lets only users with the verb attest for a signer write its trust bundles.
const AttestName = "ClusterTrustBundleAttest"

var bundles = certificatesv1beta1.Resource("clustertrustbundles")

// Attest checks new and changed bundles. There are none where their feature gate is off.
type Attest struct {
	*admission.Handler
	authorizer authorizer.Authorizer
}

var _ admission.ValidationInterface = &Attest{}

// NewAttest returns the plug-in.
func NewAttest(a authorizer.Authorizer) *Attest {
	return &Attest{admission.NewHandler(admission.Create, admission.Update), a}
}

// Validate implements admission.ValidationInterface.
func (p *Attest) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != bundles {
		return nil
	}
	bundle, ok := a.GetObject().(*certificatesv1beta1.ClusterTrustBundle)
	if !ok {
		return admission.NewForbidden(a, fmt.Errorf("expected type ClusterTrustBundle, got: %T", a.GetOldObject()))
	}
	if bundle.Spec.SignerName == "" || collection.Only(bundle, a.GetOldObject()) {
		return nil
	}
	if !mayForSigner(ctx, p.authorizer, a.GetUserInfo(), "attest", bundle.Spec.SignerName) {
		return admission.NewForbidden(a,
			fmt.Errorf("user not permitted to attest for signerName %q", bundle.Spec.SignerName))
	}
	return nil
}
