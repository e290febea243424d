package external

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/tokens"
)

// checkHeader refuses a header that says more, or less, than which key has signed and how, and one of a key that
// verifiers elsewhere can't find.
func (s *Signer) checkHeader(ctx context.Context, encoded string) error {
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return fmt.Errorf("while unwrapping header: %w", err)
	}
	var header struct {
		Algorithm string `json:"alg"`
		KeyID     string `json:"kid"`
		Type      string `json:"typ"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&header); err != nil {
		return fmt.Errorf("while parsing header JSON: %w", err)
	}
	switch {
	case header.Type != "JWT":
		return errors.New("bad type")
	case header.KeyID == "":
		return errors.New("key id missing")
	case len(header.KeyID) > longestKeyID:
		return errors.New("key id longer than 1 kb")
	case !tokens.Algorithm(header.Algorithm):
		return fmt.Errorf("bad signing algorithm %q", header.Algorithm)
	}
	hidden, known := s.hidden(header.KeyID)
	if !known {
		// no reason to withhold the token: it is those who verify it that need the key
		if err := s.Refresh(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "Failed to find key of externally signed service account token", "kid",
				header.KeyID)
		}
		hidden, _ = s.hidden(header.KeyID)
	}
	if hidden {
		return fmt.Errorf("key used for signing JWT (kid: %s) is excluded from OIDC discovery docs", header.KeyID)
	}
	return nil
}

// hidden tells whether others are not told of a key.
func (s *Signer) hidden(id string) (hidden, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keys {
		if k.ID == id {
			known, hidden = true, hidden || k.Hidden
		}
	}
	return hidden, known
}
