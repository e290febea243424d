package kinds

import (
	"context"

	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/kinds/certificates"
)

func clusterTrustBundles() *Kind {
	type bundle = certificatesv1beta1.ClusterTrustBundle
	k := define(row[*bundle]{
		Name: "ClusterTrustBundle", Resource: "clustertrustbundles", Cluster: true,
		Hub:    certificatesv1beta1.SchemeGroupVersion,
		Gate:   gates.ClusterTrustBundle,
		Others: []Version{twinned[*certificatesv1alpha1.ClusterTrustBundle, *bundle](certificatesv1alpha1.SchemeGroupVersion, nil)},
		Strategy: strategy[*bundle]{
			Validate: certificates.ValidateBundle,
			ValidateAmong: func(new, old *bundle, meta MetaErrors) field.ErrorList {
				return certificates.ValidateBundleUpdate(new, old, meta.Object, meta.Change)
			},
			ValidateName: func(string, bool) []string { return nil }, // BundleNames does, as it depends on the signer
		},
		Columns: certificates.BundleColumns(),
		Row:     certificates.BundleRow,
		Fields: map[string]func(*bundle) string{
			"spec.signerName": func(b *bundle) string { return b.Spec.SignerName },
		},
	})
	k.Strategy.Authorize = func(_ context.Context, obj Object) field.ErrorList { // upstream tells of names before the rest of the metadata
		return certificates.BundleNames(obj.(*bundle))
	}
	return k
}
