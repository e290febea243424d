package certificates

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"strings"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// Bounds of the fields of a request, in bytes.
const (
	maxKeyMaterial = 10 * 1024
	maxPodChain    = 100 * 1024
	maxUID         = 128
)

// ValidatePodRequest checks a new request for the certificate of a pod.
func ValidatePodRequest(r *podRequest) field.ErrorList {
	s, path := &r.Spec, field.NewPath("spec")
	errs := checks.SignerName(s.SignerName, path.Child("signerName"))
	errs = append(errs, checks.UserAnnotations(s.UnverifiedUserAnnotations, path.Child("unverifiedUserAnnotations"))...)
	for _, named := range []struct{ at, name, uid string }{
		{"pod", s.PodName, string(s.PodUID)}, {"serviceAccount", s.ServiceAccountName, string(s.ServiceAccountUID)},
		{"node", string(s.NodeName), string(s.NodeUID)},
	} {
		for _, msg := range validation.NameIsDNSSubdomain(named.name, false) {
			errs = append(errs, field.Invalid(path.Child(named.at+"Name"), named.name, msg))
		}
		at := path.Child(named.at + "UID")
		if named.uid == "" {
			errs = append(errs, field.Invalid(at, named.uid, "must not be empty"))
		}
		if len(named.uid) > maxUID {
			errs = append(errs, field.TooLong(at, "", maxUID))
		}
	}
	if s.MaxExpirationSeconds == nil {
		return append(errs, field.Required(path.Child("maxExpirationSeconds"), "must be set"))
	}
	if most := checks.PodCertificateLife(s.SignerName); *s.MaxExpirationSeconds < checks.MinPodCertificateLife ||
		*s.MaxExpirationSeconds > most {
		errs = append(errs, field.Invalid(path.Child("maxExpirationSeconds"), *s.MaxExpirationSeconds,
			fmt.Sprintf("must be in the range [%d, %d]", checks.MinPodCertificateLife, most)))
	}
	return append(errs, keyOfRequest(s, path)...)
}

// keyOfRequest checks the public key of a request, and that who asks has its private key. A request that is signed with
// it says so, or else a signature of the pod's UID.
func keyOfRequest(s *certificatesv1beta1.PodCertificateRequestSpec, path *field.Path) field.ErrorList {
	for _, f := range []struct {
		name string
		data []byte
	}{{"stubPKCS10Request", s.StubPKCS10Request}, {"pkixPublicKey", s.PKIXPublicKey},
		{"proofOfPossession", s.ProofOfPossession}} {
		if len(f.data) > maxKeyMaterial {
			return field.ErrorList{field.TooLong(path.Child(f.name), "", maxKeyMaterial)}
		}
	}
	stub, bare := len(s.StubPKCS10Request) > 0, len(s.PKIXPublicKey) > 0 || len(s.ProofOfPossession) > 0
	switch {
	case stub && bare:
		return field.ErrorList{field.Invalid(path, field.OmitValueType{},
			"exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set")}
	case stub:
		at := path.Child("stubPKCS10Request")
		csr, err := x509.ParseCertificateRequest(s.StubPKCS10Request)
		if err != nil {
			return field.ErrorList{field.Invalid(at, field.OmitValueType{}, "must be a valid PKCS#10 CSR")}
		}
		if errs := usableKey(csr.PublicKey, s.StubPKCS10Request, at); len(errs) > 0 {
			return errs
		}
		if err := csr.CheckSignature(); err != nil {
			return field.ErrorList{field.Invalid(at, field.OmitValueType{}, "could not verify CSR signature")}
		}
		return nil
	}
	key, errs := bareKey(s, path)
	if len(errs) > 0 {
		return errs
	}
	if errs := usableKey(key, s.PKIXPublicKey, path.Child("pkixPublicKey")); len(errs) > 0 {
		return errs
	}
	if !possesses(key, []byte(s.PodUID), s.ProofOfPossession) {
		return field.ErrorList{field.Invalid(path.Child("proofOfPossession"), field.OmitValueType{},
			"could not verify proof-of-possession signature")}
	}
	return nil
}

func bareKey(s *certificatesv1beta1.PodCertificateRequestSpec, path *field.Path) (crypto.PublicKey, field.ErrorList) {
	key, err := x509.ParsePKIXPublicKey(s.PKIXPublicKey)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(path.Child("pkixPublicKey"), s.PKIXPublicKey,
			"must be a valid PKIX-serialized public key")}
	}
	return key, nil
}

// usableKey refuses keys of types and sizes that pods don't get. The texts are upstream's, P521 included.
func usableKey(key crypto.PublicKey, encoded []byte, at *field.Path) field.ErrorList {
	switch k := key.(type) {
	case ed25519.PublicKey:
		return nil
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() && k.Curve != elliptic.P384() && k.Curve != elliptic.P521() {
			return field.ErrorList{field.Invalid(at, "curve "+k.Curve.Params().Name,
				"elliptic public keys must use curve P256 or P384")}
		}
		return nil
	case *rsa.PublicKey:
		if bits := k.Size() * 8; bits != 3072 && bits != 4096 {
			return field.ErrorList{field.Invalid(at, fmt.Sprintf("%d-bit modulus", bits),
				"RSA keys must have modulus size 3072 or 4096")}
		}
		return nil
	}
	return field.ErrorList{field.Invalid(at, encoded,
		"unknown public key type; supported types are Ed25519, ECDSA, and RSA")}
}

// possesses verifies a signature of the bytes given.
func possesses(key crypto.PublicKey, signed, signature []byte) bool {
	digest := sha256.Sum256(signed)
	switch k := key.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(k, signed, signature)
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(k, digest[:], signature)
	case *rsa.PublicKey:
		return rsa.VerifyPSS(k, crypto.SHA256, digest[:], signature, nil) == nil
	}
	return false
}

// requestedKey is the key that a request is for.
func requestedKey(s *certificatesv1beta1.PodCertificateRequestSpec) (crypto.PublicKey, field.ErrorList) {
	path := field.NewPath("spec")
	if len(s.StubPKCS10Request) == 0 {
		return bareKey(s, path)
	}
	csr, err := x509.ParseCertificateRequest(s.StubPKCS10Request)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(path.Child("stubPKCS10Request"), field.OmitValueType{},
			"must be a valid PKCS#10 CSR")}
	}
	return csr.PublicKey, nil
}

// ValidatePodRequestUpdate checks a change: what is asked for stays.
func ValidatePodRequestUpdate(new, old *podRequest) field.ErrorList {
	if equality.Semantic.DeepEqual(new.Spec, old.Spec) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec"), checks.Unversioned(new.Spec),
		validation.FieldImmutableErrorMsg)}
}

// anySigner stands for all signers of a domain.
func anySigner(signer string) string {
	domain, _, _ := strings.Cut(signer, "/")
	return domain + "/*"
}
