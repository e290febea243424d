package authn

import (
	cryptox509 "crypto/x509"
	"crypto/x509/pkix"
	"slices"

	"k8s.io/apimachinery/pkg/apis/asn1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/x509"
)

// ownerWithoutUID is the user of a certificate, by all its names but the UID. Removing the UID from the response is not
// enough: a UID that can't be read is an error.
func ownerWithoutUID(chain []*cryptox509.Certificate) (*authenticator.Response, bool, error) {
	leaf := *chain[0]
	leaf.Subject.Names = slices.DeleteFunc(slices.Clone(leaf.Subject.Names),
		func(name pkix.AttributeTypeAndValue) bool {
			return name.Type.Equal(asn1.X509UID())
		})
	return x509.CommonNameUserConversion([]*cryptox509.Certificate{&leaf})
}
