package join

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const pinPrefix = "sha256:"

// Pin is the hash of a certificate's public key, as --discovery-token-ca-cert-hash has it: sha256 of the
// SubjectPublicKeyInfo in DER (RFC 7469, section 2.4).
func Pin(certificate *x509.Certificate) string {
	sum := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return pinPrefix + hex.EncodeToString(sum[:])
}

// PinOf is the pin of the first certificate in PEM.
func PinOf(bundle []byte) (string, error) {
	certificates, err := parseCertificates(bundle)
	if err != nil {
		return "", err
	}
	return Pin(certificates[0]), nil
}

// CheckPin reads a pin, and returns it in lower case.
func CheckPin(text string) (string, error) {
	digits, ok := strings.CutPrefix(strings.ToLower(text), pinPrefix)
	sum, err := hex.DecodeString(digits)
	if !ok || err != nil || len(sum) != sha256.Size {
		return "", fmt.Errorf("hash %q: want sha256: and 64 hexadecimal digits", text)
	}
	return pinPrefix + digits, nil
}

// checkPins is an error if the key of no certificate has one of the pins, which are as CheckPin returns them.
func checkPins(bundle []byte, pins []string) error {
	certificates, err := parseCertificates(bundle)
	if err != nil {
		return err
	}
	var found []string
	for _, certificate := range certificates {
		found = append(found, Pin(certificate))
	}
	if !slices.ContainsFunc(found, func(pin string) bool { return slices.Contains(pins, pin) }) {
		return fmt.Errorf("the cluster's authority has the hash %s, not %s: the address is another cluster's, or the "+
			"hash is; `quintet join-command` prints both", strings.Join(found, ", "), strings.Join(pins, ", "))
	}
	return nil
}

// parseCertificates reads all certificates in PEM, of which there is one at least.
func parseCertificates(bundle []byte) ([]*x509.Certificate, error) {
	var certificates []*x509.Certificate
	for rest := bundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate of the cluster's authority: %w", err)
		}
		certificates = append(certificates, certificate)
	}
	if len(certificates) == 0 {
		return nil, errors.New("there is no certificate of the cluster's authority")
	}
	return certificates, nil
}
