package authn

import (
	cryptox509 "crypto/x509"
	"crypto/x509/pkix"
	"testing"

	"k8s.io/apimachinery/pkg/apis/asn1"
	"k8s.io/apiserver/pkg/authentication/request/x509"
)

func TestOwnerWithoutUID(t *testing.T) {
	uid := pkix.AttributeTypeAndValue{Type: asn1.X509UID(), Value: "7"}
	for name, names := range map[string][]pkix.AttributeTypeAndValue{"one": {uid}, "two": {uid, uid}} {
		of := &cryptox509.Certificate{
			Subject: pkix.Name{CommonName: "jane", Organization: []string{"dev"}, Names: names}}
		response, ok, err := ownerWithoutUID([]*cryptox509.Certificate{of})
		if err != nil || !ok {
			t.Fatalf("%s: %v, %v", name, ok, err)
		}
		if u := response.User; u.GetName() != "jane" || u.GetUID() != "" || len(u.GetGroups()) != 1 {
			t.Errorf("%s: %+v", name, u)
		}
		response, ok, err = x509.CommonNameUserConversion([]*cryptox509.Certificate{of})
		if readable := len(names) == 1; readable != (err == nil && ok) || readable && response.User.GetUID() != "7" {
			t.Errorf("%s: %+v, %v, with the UID", name, response, err)
		}
	}
}
