package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func certificate(t *testing.T, number int64, authority bool) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(number), IsCA: authority, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func bundle(name, signer, certificates string) *trustBundle {
	b := &trustBundle{}
	b.Name, b.Spec.SignerName, b.Spec.TrustBundle = name, signer, certificates
	return b
}

func TestValidateBundle(t *testing.T) {
	one, two, leaf := certificate(t, 1, true), certificate(t, 2, true), certificate(t, 3, false)
	headers := strings.Replace(one, "CERTIFICATE-----\n", "CERTIFICATE-----\nA: b\n\n", 1)
	const at = `spec.trustBundle: Invalid value: "<value omitted>": `
	for name, test := range map[string]struct {
		b    *trustBundle
		want string // "" for none
	}{
		"plain":        {bundle("a", "", one+"text\n"+two), ""},
		"of a signer":  {bundle("a.b:c:n", "a.b/c", one), ""},
		"empty":        {bundle("a", "", ""), at + "at least one trust anchor must be provided"},
		"twice":        {bundle("a", "", one+two+one), at + "duplicate trust anchor (indices [0 2])"},
		"no authority": {bundle("a", "", one+leaf), at + "entry 1 does not have the CA bit set"},
		"headers":      {bundle("a", "", headers), at + "entry 0 has PEM block headers"},
		"something else": {bundle("a", "", "-----BEGIN KEY-----\nAAAA\n-----END KEY-----\n"),
			at + "entry 0 has bad block type: KEY"},
		"no certificate": {bundle("a", "", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
			at + "entry 0 does not parse as X.509"},
		"too long": {bundle("a", "", strings.Repeat("x", maxTrustBundle+1)), "spec.trustBundle: Too long"},
		"signer":   {bundle("a:b", "a/b", one), `spec.signerName: Invalid value: "a"`},
		"name": {bundle("a:b", "", one),
			`metadata.name: Invalid value: "a:b": ClusterTrustBundle without signer name must not have ":" in its name`},
		"signer's name": {bundle("a", "a.b/c", one),
			"ClusterTrustBundle for signerName a.b/c must be named with prefix a.b:c:"},
		"rest of name": {bundle("a.b:c:_", "a.b/c", one), "a lowercase RFC 1123 subdomain"},
	} {
		t.Run(name, func(t *testing.T) {
			errs := append(BundleNames(test.b), ValidateBundle(test.b)...)
			if (len(errs) == 0) != (test.want == "") ||
				test.want != "" && !strings.Contains(errs.ToAggregate().Error(), test.want) {
				t.Errorf("%v, want %q", errs, test.want)
			}
		})
	}
	if errs := ValidateBundleUpdate(bundle("a", "", leaf), bundle("a", "", leaf), nil, nil); len(errs) > 0 {
		t.Errorf("what stays is looked at: %v", errs)
	}
	object := field.ErrorList{field.Required(field.NewPath("object"), "")}
	change := field.ErrorList{field.Required(field.NewPath("change"), "")}
	errs := ValidateBundleUpdate(bundle("n", "a.b/c", leaf), bundle("a.b:c:n", "a.b/d", one), object, change)
	var fields []string
	for _, e := range errs {
		fields = append(fields, e.Field)
	}
	if got := strings.Join(fields, " "); got != "metadata.name object spec.trustBundle change spec.signerName" {
		t.Errorf("in the order %s", got)
	}
}
