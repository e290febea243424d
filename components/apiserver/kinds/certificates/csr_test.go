package certificates

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

// signingRequest is a request whose body names another user.
func signingRequest(t *testing.T) kindtest.Fixture {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	kind := certificateSigningRequests(api.Deps{Clock: clocktesting.NewFakePassiveClock(kindtest.Noon())})
	return kindtest.Fixture{Kind: kind, Object: `
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: r, creationTimestamp: "2026-01-02T12:00:00Z"}
spec: {signerName: example.com/signer, usages: [client auth], username: mallory, groups: [system:masters], request: ` +
		base64.StdEncoding.EncodeToString(block) + `}
`}
}

func TestSigningRequest(t *testing.T) {
	signingRequest(t).Create(t, kindtest.Table{
		"":                        nil,
		"spec.request: eA==":      {`spec.request: Invalid value: "eA==": PEM block type must be CERTIFICATE REQUEST`},
		"spec.usages: []":         {"spec.usages: Required value"},
		"spec.usages: [cooking]":  {`spec.usages[0]: Unsupported value: "cooking": supported values: "any", ...`},
		"spec.usages: [any, any]": {`spec.usages[1]: Duplicate value: "any"`},
		"spec.signerName: ''":     {"spec.signerName: Required value"},
		"spec.signerName: signer": {
			`spec.signerName: Invalid value: "signer": must be a fully qualified domain and path of the form ` +
				`'example.com/signer-name'`,
		},
		"spec.signerName: example/signer": {
			`spec.signerName: Invalid value: "example": should be a domain with at least two segments separated ` +
				`by dots`,
		},
		"spec.signerName: kubernetes.io/legacy-unknown": {
			`spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName is not allowed ` +
				`via this API version`,
		},
		"spec.expirationSeconds: 600": nil,
		"spec.expirationSeconds: 599": {
			"spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
		},
		"metadata.name: anything goes": nil,
	})
	signingRequest(t).Stored(t, "create", kindtest.Table{
		"status.certificate: eA==": {"status.certificate: null", "spec.username: null", "spec.groups: null"},
	})
}

func TestRequester(t *testing.T) {
	ctx := request.WithUser(context.Background(), &user.DefaultInfo{Name: "jane", UID: "7", Groups: []string{"dev"},
		Extra: map[string][]string{"a": {"b"}}})
	c := &csr{}
	c.Spec.Username = "mallory"
	if prepareCSR(ctx, c); c.Spec.Username != "jane" || c.Spec.UID != "7" || len(c.Spec.Groups) != 1 ||
		c.Spec.Extra["a"][0] != "b" {
		t.Errorf("%+v", c.Spec)
	}
}

func TestDecisions(t *testing.T) {
	const approved = "status.conditions: [{type: Approved, status: 'True'}]"
	const denied = "status.conditions: [{type: Denied, status: 'True'}]"
	const remove = `status.conditions: Forbidden: updates may not remove a condition of type "Approved"`
	r := signingRequest(t)
	r.Subresource(t, "approval", kindtest.Table{
		approved: nil,
		denied:   nil,
		"status.conditions: [{type: Approved, status: 'False'}]": {
			`status.conditions[0].status: Unsupported value: "False": supported values: "True"`,
		},
		approved + " => status.conditions: []": {remove},
		approved + " => status.conditions: [{type: Approved, status: 'True'}, {type: Denied, status: 'True'}]": {
			`status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive`,
		},
		"status.conditions: [{type: Other, status: Maybe}]": {
			`status.conditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"`,
		},
	})
	r.Subresource(t, "status", kindtest.Table{
		approved: {`status.conditions: Forbidden: updates may not add a condition of type "Approved"`},
		"status.conditions: [{type: Failed, status: 'True'}]": nil,
		approved + " => status.conditions: []":                {remove},
		"status.certificate: eA==": {
			`status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block`,
		},
		"status.certificate: eA== => status.certificate: null": {
			"status.certificate: Forbidden: updates may not modify existing certificate content",
		},
	})
	r.Stored(t, "approval", kindtest.Table{
		approved + "; spec.signerName: a.b/c; status.certificate: eA==": {
			"status.conditions[0].lastUpdateTime: 2026-01-02T12:00:00Z",
			"status.conditions[0].lastTransitionTime: 2026-01-02T12:00:00Z", "status.certificate: null",
			"spec.signerName: example.com/signer",
		},
	})
	r.Stored(t, "update", kindtest.Table{
		"spec.signerName: a.b/c; metadata.labels.a: b": {"spec.signerName: example.com/signer", "metadata.labels.a: b"},
	})
	row := func(life, condition string) []string {
		return []string{"r", "24h", "example.com/signer", "mallory", life, condition}
	}
	r.Cells(t, kindtest.Table{
		"":                                      row("<none>", "Pending"),
		"spec.expirationSeconds: 3600":          row("60m", "Pending"),
		approved:                                row("<none>", "Approved"),
		denied:                                  row("<none>", "Denied"),
		approved + "; status.certificate: eA==": row("<none>", "Approved,Issued"),
		"status.conditions: [{type: Approved, status: 'True'}, {type: Failed, status: 'True'}]": row("<none>",
			"Approved,Failed"),
	})
}
