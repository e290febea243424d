package certificates

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"

	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

func clusterTrustBundles() *api.Kind {
	type bundle = certificatesv1beta1.ClusterTrustBundle
	return api.Define(api.Row[*bundle]{
		Name: "ClusterTrustBundle", Resource: "clustertrustbundles", Cluster: true,
		Hub:  certificatesv1beta1.SchemeGroupVersion,
		Gate: gates.ClusterTrustBundle,
		Others: []api.Version{api.TwinVersion[*certificatesv1alpha1.ClusterTrustBundle, *bundle](
			certificatesv1alpha1.SchemeGroupVersion, nil)},
		Strategy: api.Strategy[*bundle]{
			// upstream tells of names before the rest of the metadata
			Authorize: api.OfObject(BundleNames),
			Validate:  api.OfObject(ValidateBundle),
			ValidateAmong: func(_ context.Context, new, old *bundle, meta api.MetaErrors) field.ErrorList {
				return ValidateBundleUpdate(new, old, meta.Object, meta.Change)
			},
			ValidateName: func(string, bool) []string { return nil }, // BundleNames does, as it depends on the signer
		},
		Columns: BundleColumns(),
		Row:     BundleRow,
		Fields: map[string]func(*bundle) string{
			"spec.signerName": func(b *bundle) string { return b.Spec.SignerName },
		},
	})
}

type trustBundle = certificatesv1beta1.ClusterTrustBundle

// maxTrustBundle bounds the certificates of a bundle, in bytes.
const maxTrustBundle = 1 << 20

// ValidateBundle checks a bundle of certificates that clients trust, but for its names.
func ValidateBundle(b *trustBundle) field.ErrorList {
	return slices.Concat(bundleSigner(b), bundlePEM(b.Spec.TrustBundle))
}

// ValidateBundleUpdate checks a change: the signer stays, and certificates that do are not looked at again. Of the
// metadata is told what is wrong with the object, names first, and later with the change.
func ValidateBundleUpdate(new, old *trustBundle, object, change field.ErrorList) field.ErrorList {
	errs := slices.Concat(BundleNames(new), object, bundleSigner(new))
	if new.Spec.TrustBundle != old.Spec.TrustBundle {
		errs = append(errs, bundlePEM(new.Spec.TrustBundle)...)
	}
	errs = append(errs, change...)
	return append(errs, validation.ValidateImmutableField(new.Spec.SignerName, old.Spec.SignerName,
		field.NewPath("spec", "signerName"))...)
}

// BundleNames checks the names of a bundle, which begin with the signer's.
func BundleNames(b *trustBundle) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("metadata")
	if b.GenerateName != "" {
		for _, msg := range checks.TrustBundleName(b.Spec.SignerName, b.GenerateName, true) {
			errs = append(errs, field.Invalid(path.Child("generateName"), b.GenerateName, msg))
		}
	}
	if b.Name != "" {
		for _, msg := range checks.TrustBundleName(b.Spec.SignerName, b.Name, false) {
			errs = append(errs, field.Invalid(path.Child("name"), b.Name, msg))
		}
	}
	return errs
}

func bundleSigner(b *trustBundle) field.ErrorList {
	if b.Spec.SignerName == "" {
		return nil
	}
	return checks.SignerName(b.Spec.SignerName, field.NewPath("spec", "signerName"))
}

// bundlePEM checks that there are certificates of authorities, each once, and nothing else. Text between them is none.
func bundlePEM(text string) field.ErrorList {
	path := field.NewPath("spec", "trustBundle")
	if len(text) > maxTrustBundle {
		return field.ErrorList{field.TooLong(path, "", maxTrustBundle)}
	}
	var errs field.ErrorList
	refuse := func(format string, args ...any) {
		errs = append(errs, field.Invalid(path, "<value omitted>", fmt.Sprintf(format, args...)))
	}
	found := map[string][]int{}
	var order []string
	block, rest := pem.Decode([]byte(text))
	for i := 0; block != nil; i++ {
		if fault := anchorFault(block); fault != "" {
			refuse("entry %d %s", i, fault)
		} else {
			if found[string(block.Bytes)] == nil {
				order = append(order, string(block.Bytes))
			}
			found[string(block.Bytes)] = append(found[string(block.Bytes)], i)
		}
		block, rest = pem.Decode(rest)
	}
	if len(errs) > 0 {
		return errs
	}
	if len(found) == 0 {
		refuse("at least one trust anchor must be provided")
	}
	for _, der := range order {
		if at := found[der]; len(at) > 1 {
			refuse("duplicate trust anchor (indices %v)", at)
		}
	}
	return errs
}

// anchorFault tells why a block is no certificate of an authority.
func anchorFault(block *pem.Block) string {
	switch {
	case block.Type != "CERTIFICATE":
		return "has bad block type: " + block.Type
	case len(block.Headers) > 0:
		return "has PEM block headers"
	}
	c, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return "does not parse as X.509"
	case !c.IsCA:
		return "does not have the CA bit set"
	case !c.BasicConstraintsValid:
		return "has invalid basic constraints"
	}
	return ""
}

// BundleColumns are the columns of bundles.
func BundleColumns() show.Columns {
	return show.Name().String("SignerName", certificatesv1beta1.ClusterTrustBundleSpec{}.SwaggerDoc()["signerName"])
}

// BundleRow are the cells of a bundle.
func BundleRow(b *trustBundle) []any { return []any{b.Name, show.OrNone(b.Spec.SignerName)} }
